package quant

import (
	"encoding/base64"
	"sync"

	"godwit/engine/dtype"
)

// A book is the code book of an IQ type. It is a subset of a lattice of base^width
// points, where base is the number of levels. The coordinates of a point are the
// digits of its number, least significant first. Codes number the points of the
// subset in ascending order.
type book struct {
	bits   string // the subset (see grid_data.go)
	levels string // value of each digit, as signed bytes
	width  int    // coordinates of a point
}

const (
	levelsIQ1  = "\xff\x00\x01"
	levelsIQ2  = "\x08\x19\x2b"
	levelsIQ3x = "\x04\x0c\x14\x1c\x24\x2c\x34\x3e"
	levelsIQ3s = "\x01\x03\x05\x07\x09\x0b\x0d\x0f"
)

var (
	gridIQ1    = lazy(book{bitsIQ1, levelsIQ1, 8})
	gridIQ2XXS = lazy(book{bitsIQ2XXS, levelsIQ2, 8})
	gridIQ2XS  = lazy(book{bitsIQ2XS, levelsIQ2, 8})
	gridIQ2S   = lazy(book{bitsIQ2S, levelsIQ2, 8})
	gridIQ3XXS = lazy(book{bitsIQ3XXS, levelsIQ3x, 4})
	gridIQ3S   = lazy(book{bitsIQ3S, levelsIQ3s, 4})
)

func lazy(b book) func() []int8 { return sync.OnceValue(b.points) }

// points returns the width values of each code, in the order of the codes.
func (b book) points() []int8 {
	set, err := base64.StdEncoding.DecodeString(b.bits)
	if err != nil {
		panic("quant: code book: " + err.Error())
	}
	var out []int8
	for i := range 8 * len(set) {
		if set[i/8]>>(i%8)&1 == 0 {
			continue
		}
		for n, k := i, 0; k < b.width; k++ {
			out = append(out, int8(b.levels[n%len(b.levels)]))
			n /= len(b.levels)
		}
	}
	return out
}

// Grid returns the code book of an IQ1, IQ2 or IQ3 type for kernels that read
// points themselves. points contains width values for each code, in the order of
// the codes. It is nil for other types. The slice is shared and must not be
// modified.
func Grid(t dtype.Type) (points []int8, width int) {
	switch t {
	case dtype.IQ1_S, dtype.IQ1_M:
		return gridIQ1(), 8
	case dtype.IQ2_XXS:
		return gridIQ2XXS(), 8
	case dtype.IQ2_XS:
		return gridIQ2XS(), 8
	case dtype.IQ2_S:
		return gridIQ2S(), 8
	case dtype.IQ3_XXS:
		return gridIQ3XXS(), 4
	case dtype.IQ3_S:
		return gridIQ3S(), 4
	}
	return nil, 0
}
