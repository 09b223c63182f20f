package attn

import (
	"math"
	"slices"

	"godwit/engine/kv"
)

// levels is the level table of a form in the layout of the kernels: level =
// unit·(table - zero). The table is repeated to 64 bytes because a byte permute
// reads six bits.
type levels struct {
	unit  float32 // unit of the int8 levels
	zero  int32   // how much the table's bytes are above the levels: 128 on K, whose bytes are unsigned
	table [64]byte
	exact bool // the int8 value is the level itself minus centre; unit is then 1, or the trellis's own unit
	// centre is how much the table's levels are below the real levels of affine
	// forms. It is used on V, where weights are rounded. There a level far from
	// zero would multiply the rounding error of its weight.
	centre float32
	float  [16]float32 // the levels, repeated; only for codes of up to 4 bits whose levels are not exact
	// squares are the repeated squares of the levels, in the order in which an
	// encoder adds them.
	squares [16]float32
	plain   bool     // codes are the table's bytes themselves
	index   [64]byte // a table that returns the code itself
	placed  []byte   // tables for codes at other bit positions of an index; see placements
}

// placements lists the positions of a code's three bits among the six index
// bits: the first of the two low bits, and the third bit. Each has its own
// table.
var placements = [5][2]int{{0, 4}, {2, 1}, {4, 2}, {4, 3}, {2, 5}}

func newLevels(t *kv.Type, s kv.Side) *levels {
	l := &levels{}
	c := &t.Codes
	if s == kv.K {
		l.zero = 128
	}
	for i := range l.index {
		l.index[i] = byte(i & (1<<c.Bits - 1))
	}
	if c.Levels == nil {
		l.unit, l.exact, l.plain = 1, true, true
		return l
	}
	ints, unit, exact := integers(c.Levels)
	l.unit, l.exact = unit, exact
	if t.Codes.Packing == kv.Cyclic {
		l.unit = t.Scale.Unit
		return l
	}
	if exact && t.Scale.Affine && s == kv.V {
		centre := int8((int(slices.Min(ints)) + int(slices.Max(ints)) + 1) / 2)
		for i := range ints {
			ints[i] -= centre
		}
		l.centre = float32(centre)
	}
	for i := range l.table {
		l.table[i] = byte(int32(ints[i%len(ints)]) + l.zero)
	}
	l.makePlaced(c.Bits)
	for i := range l.float {
		l.float[i] = c.Levels[i%len(c.Levels)]
		l.squares[i] = float32(l.float[i] * l.float[i])
	}
	return l
}

// makePlaced makes the tables of placements. If codes do not have three bits, the
// only table is the level table itself.
func (l *levels) makePlaced(bits int) {
	if bits != 3 {
		l.placed = l.table[:]
		return
	}
	for _, at := range placements {
		for i := range 64 {
			l.placed = append(l.placed, l.table[i>>at[0]&3|i>>at[1]&1<<2])
		}
	}
}

// integers rounds levels to multiples of a common unit, with factors from -127
// to 127. The unit is 1 if the levels are then exact. Otherwise it is the unit
// with the smallest squared error, among units from the smallest possible to
// twice as large.
func integers(level []float32) (ints []int8, unit float32, exact bool) {
	var top float64
	for _, v := range level {
		top = max(top, math.Abs(float64(v)))
	}
	round := func(unit float64) (e float64) {
		for i, v := range level {
			r := math.RoundToEven(float64(v) / unit)
			ints[i] = int8(r)
			d := float64(v) - r*unit
			e += d * d
		}
		return e
	}
	ints = make([]int8, len(level))
	if top <= 127 && round(1) == 0 {
		return ints, 1, true
	}
	best, at := math.Inf(1), 0
	const fine = 16
	for i := 64 * fine; i <= 127*fine; i++ {
		if e := round(top * fine / float64(i)); e < best {
			best, at = e, i
		}
	}
	unit = float32(top * fine / float64(at))
	round(float64(unit))
	return ints, unit, false
}

// signLevels is the table of a residual's sign plane on K: bit 1 is +1.
var signLevels = func() (t [64]byte) {
	for i := range t {
		t[i] = byte(127 + i%2*2)
	}
	return t
}()
