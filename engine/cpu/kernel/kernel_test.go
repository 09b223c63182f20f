package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"godwit/engine/dtype"
)

// eachTier runs f once for every tier of the machine.
func eachTier(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	was := Active()
	defer func() { active = was }()
	for _, tier := range Tiers() {
		if err := Use(tier); err != nil {
			t.Fatal(err)
		}
		t.Run(tier.String(), f)
	}
}

func eachTierBench(b *testing.B, f func(b *testing.B)) {
	was := Active()
	defer func() { active = was }()
	for _, tier := range Tiers() {
		if err := Use(tier); err != nil {
			b.Fatal(err)
		}
		b.Run(tier.String(), f)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// TestTiers names the tiers of this machine; eachTier runs in every one.
func TestTiers(t *testing.T) { t.Logf("cpu tiers: kernels %v", Tiers()) }

var quantized = []dtype.Type{
	dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1, dtype.Q8_0,
	dtype.Q2_K, dtype.Q3_K, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K,
	dtype.IQ4_NL, dtype.IQ4_XS, dtype.MXFP4,
	dtype.IQ2_XXS, dtype.IQ2_XS, dtype.IQ2_S, dtype.IQ3_XXS, dtype.IQ3_S, dtype.IQ1_S, dtype.IQ1_M, dtype.TQ1_0, dtype.TQ2_0,
}

func rnd(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x676f64776974)) }

func gauss(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// halfAt lists the byte offsets of the float16 scales in a block.
var halfAt = map[dtype.Type][]int{
	dtype.Q4_0: {0}, dtype.Q4_1: {0, 2}, dtype.Q5_0: {0}, dtype.Q5_1: {0, 2}, dtype.Q8_0: {0},
	dtype.Q2_K: {80, 82}, dtype.Q3_K: {108}, dtype.Q4_K: {0, 2}, dtype.Q5_K: {0, 2}, dtype.Q6_K: {208},
	dtype.IQ4_NL: {0}, dtype.IQ4_XS: {0},
	dtype.IQ2_XXS: {0}, dtype.IQ2_XS: {0}, dtype.IQ2_S: {0}, dtype.IQ3_XXS: {0}, dtype.IQ3_S: {0}, dtype.IQ1_S: {0},
	dtype.TQ1_0: {52}, dtype.TQ2_0: {64},
}

// randomRows makes rows of any type: random bytes with scales of ordinary size.
func randomRows(r *rand.Rand, t dtype.Type, rows, cols int) []byte {
	b := make([]byte, rows*t.RowBytes(cols))
	if isFloat(t) {
		for i := range rows * cols {
			v := float32(r.NormFloat64())
			switch t {
			case dtype.F32:
				putF32(b, i, v)
			case dtype.F16:
				binary.LittleEndian.PutUint16(b[2*i:], dtype.F32ToF16(v))
			case dtype.BF16:
				binary.LittleEndian.PutUint16(b[2*i:], dtype.F32ToBF16(v))
			}
		}
		return b
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for i := 0; i < len(b); i += t.Bytes() {
		if t == dtype.MXFP4 {
			b[i] = byte(120 + r.IntN(8))
		}
		if t == dtype.IQ1_M { // a float16 in four nibbles
			h := dtype.F32ToF16(float32(r.NormFloat64() / 64))
			for k := range 4 {
				b[i+49+2*k] = b[i+49+2*k]&15 | byte(h>>(4*k)&15)<<4
			}
		}
		for _, o := range halfAt[t] {
			binary.LittleEndian.PutUint16(b[i+o:], dtype.F32ToF16(float32(r.NormFloat64()/64)))
		}
	}
	return b
}

func pack(t *testing.T, typ dtype.Type, rows, cols int, src []byte) *Packed {
	t.Helper()
	n, ok := PackedSize(typ, rows, cols)
	if !ok {
		t.Fatalf("%v %d × %d has no packed size", typ, rows, cols)
	}
	w := &Packed{Type: typ, Rows: rows, Cols: cols, Data: make([]byte, n)}
	half := w.Panels() / 2
	Pack(w.Data, typ, rows, cols, src, half, w.Panels())
	Pack(w.Data, typ, rows, cols, src, 0, half)
	return w
}

// The reference is a float64 sum over codes, scales and minima. In the bound,
// each block of 32 rounds at most four running sums, and each added term is
// rounded at most six times. All are relative to the sum of magnitudes.
func TestMatMulReference(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		for _, typ := range quantized {
			r := rnd(1)
			const rows, cols, batch = 37, 768, 17
			w := pack(t, typ, rows, cols, randomRows(r, typ, rows, cols))
			a := NewActs(batch, cols)
			for i := range batch {
				a.Quantize(i, gauss(r, cols))
			}
			y := make([]float32, batch*rows)
			MatMul(y, rows, w, a, 0, batch, 0, w.Panels())
			for j := range rows {
				for i := range batch {
					want, mag := w.exact(j, a.row(i))
					limit := mag * float64(8*cols/32+6) * 0x1p-24
					if got := float64(y[i*rows+j]); !(math.Abs(got-want) <= limit) {
						t.Fatalf("%v row %d of activations %d: %g, want %g ± %g", typ, j, i, got, want, limit)
					}
				}
			}
		}
	})
}

// exact returns the product of a row and a row of activations in float64, and the sum of magnitudes
// of the added terms. Codes and minima are separate terms.
func (w *Packed) exact(r int, x []actBlock) (sum, mag float64) {
	f, panel := formOf(w.Type), w.panel(r/PanelRows)
	size := blockBytes(w.Type)
	var codes [32]int8
	for i, b := range x {
		blk := panel[i/f.subs*size:]
		f.unpack(&codes, blk, i%f.subs, r%PanelRows)
		s := f.scales(blk, i%f.subs, r%PanelRows)
		for c, q := range codes {
			v := float64(b.d) * float64(b.q.at(c))
			p := float64(s.d[c/16]) * float64(q) * v
			m := float64(s.m[c/16]) * v
			sum += p + m
			mag += math.Abs(p) + math.Abs(m)
		}
	}
	return sum, mag
}
