package quant_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// Any type number with any bytes. Whole blocks decode, and a row equals its
// blocks decoded one by one. Everything else is an error.
func FuzzDecode(f *testing.F) {
	for _, t := range quant.Types() {
		f.Add(uint32(t), splitmix(uint64(t), 2*t.Bytes()))
		f.Add(uint32(t), splitmix(uint64(t), 2*t.Bytes()-1))
		f.Add(uint32(t), slices.Repeat([]byte{0xff}, t.Bytes()))
	}
	f.Add(uint32(math.MaxUint32), []byte{1})
	f.Fuzz(func(t *testing.T, id uint32, b []byte) {
		typ := dtype.Type(id)
		if !quant.Supported(typ) {
			if err := quant.Decode(typ, nil, b); !errors.Is(err, quant.ErrType) {
				t.Fatalf("%v: %v", typ, err)
			}
			return
		}
		n := len(b) / typ.Bytes()
		row := make([]float32, n*typ.Elems())
		err := quant.Decode(typ, row, b)
		if whole := len(b)%typ.Bytes() == 0; whole != (err == nil) {
			t.Fatalf("%v, %d bytes: %v", typ, len(b), err)
		}
		if err != nil {
			return
		}
		blk := make([]float32, typ.Elems())
		for i := range n {
			if err := quant.Decode(typ, blk, b[i*typ.Bytes():(i+1)*typ.Bytes()]); err != nil {
				t.Fatal(err)
			}
			sameBits(t, typ.String(), row[i*len(blk):(i+1)*len(blk)], blk)
		}
	})
}

// Any bits as values and importance. The result is either ErrValue or bytes
// that decode to finite values. The plain float types keep values that are not
// finite.
func FuzzEncode(f *testing.F) {
	for _, t := range quant.Types() {
		f.Add(uint32(t), splitmix(1, 4*t.Elems()), []byte(nil))
		f.Add(uint32(t), splitmix(2, 4*t.Elems()), splitmix(3, 4*t.Elems()))
		f.Add(uint32(t), slices.Repeat([]byte{0xff}, 4*t.Elems()), []byte(nil))
		f.Add(uint32(t), make([]byte, 4*t.Elems()), make([]byte, 4*t.Elems()))
	}
	f.Fuzz(func(t *testing.T, id uint32, values, weights []byte) {
		typ := dtype.Type(id)
		if !quant.Encodes(typ) {
			return
		}
		x, w := floats(values), floats(weights)
		x = x[:len(x)/typ.Elems()*typ.Elems()]
		if len(w) < len(x) {
			w = nil
		} else {
			w = w[:len(x)]
		}
		b := make([]byte, typ.RowBytes(len(x)))
		if err := quant.Encode(typ, b, x, w); err != nil {
			if !errors.Is(err, quant.ErrValue) {
				t.Fatal(err)
			}
			return
		}
		y := make([]float32, len(x))
		if err := quant.Decode(typ, y, b); err != nil {
			t.Fatal(err)
		}
		for i, v := range y {
			if v-v != 0 && !typ.IsFloat() {
				t.Fatalf("%v: value %d, %g, becomes %g", typ, i, x[i], v)
			}
		}
	})
}
