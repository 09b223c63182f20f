package kv

import (
	"math"
	"sync"
)

// trellisWindow is the number of bits that select a level, and trellisLevels the
// number of levels. The codes of a block form a cyclic string with Bits bits per
// value. Value i has the level of the window that begins at bit Bits·i and
// wraps around at the end.
const (
	trellisWindow = 8
	trellisLevels = 1 << trellisWindow
)

// PackedByPage reports whether a form is packed a page at a time from its exact
// form, if there is one. Finding its codes is a search that the token path should
// not wait for. Rows of other forms are packed when they are written.
func (t *Type) PackedByPage() bool {
	for _, p := range t.Join {
		if p.Form.PackedByPage() {
			return true
		}
	}
	return t.Codes.Packing == Cyclic
}

// windows reads the window of every value of a block. len(dst) values take
// len(dst)·width bits of src, a multiple of 32.
func windows(dst, src []byte, width int) {
	src = src[:len(dst)*width/8]
	for i := range dst {
		bit := width * i
		v := uint(src[bit/8])
		next := bit/8 + 1
		if next == len(src) {
			next = 0
		}
		dst[i] = byte((v | uint(src[next])<<8) >> (bit % 8))
	}
}

// putWindows is the inverse of windows. Each window begins with the bits that
// its value adds.
func putWindows(dst, w []byte, width int) {
	var low [maxBlock]uint8
	for i, v := range w {
		low[i] = v & (1<<width - 1)
	}
	putStream(dst, low[:len(w)], width)
}

// encodeTrellis is the rule Unbiased. It chooses the codes whose levels are nearest
// to the rotated values at unit variance, and the scale that preserves the
// projection onto the rotated values. Source: spec gw-formats.md "Definition".
func (t *Type) encodeTrellis(dst []byte, x []float32) int {
	t.Rotation.forward(x)
	var z [maxBlock]int16
	var w [maxBlock]uint8
	energy := TrellisTargets(z[:len(x)], x, t.Scale.Unit)
	t.Codes.Trellis.Encode(w[:len(x)], z[:len(x)])
	clear(dst)
	putWindows(dst[t.Codes.At:], w[:len(x)], t.Codes.Bits)
	return putF16(dst, t.Scale.At, t.TrellisScale(x, w[:len(x)], energy))
}

// TrellisTargets writes the encoder's target values: x at unit variance, in half
// steps of the table and within its range. Targets are 0 for NaN and for rows of
// length zero. It returns the sum of the squares of x.
func TrellisTargets(z []int16, x []float32, unit float32) (energy float64) {
	energy = lanes(len(x), func(i int) float64 { return float64(x[i]) * float64(x[i]) })
	inv := TrellisGain(energy, len(x), unit)
	for i, v := range x {
		s := math.RoundToEven(float64(v) * inv)
		switch {
		case s > TrellisReach:
			s = TrellisReach
		case s < -TrellisReach:
			s = -TrellisReach
		case s != s:
			s = 0
		}
		z[i] = int16(s)
	}
	return energy
}

// TrellisGain returns the factor that converts n values whose squares add up to
// energy into targets, or 0 if their length is zero.
func TrellisGain(energy float64, n int, unit float32) float64 {
	if !(energy > 0) || math.IsInf(energy, 0) {
		return 0
	}
	return trellisSteps / (math.Sqrt(energy/float64(n)) * float64(unit))
}

// TrellisScale returns the scale of a block: |x|² over Σ x·level.
func (t *Type) TrellisScale(x []float32, w []uint8, energy float64) float32 {
	return t.TrellisScaleOf(energy, lanes(len(x), func(i int) float64 {
		return float64(x[i]) * float64(t.Codes.Levels[w[i]])
	}))
}

// lanes adds n terms, a multiple of 16, in the order of vector code: 16 sums, which
// are then added pairwise, those farthest apart first.
func lanes(n int, term func(i int) float64) float64 {
	var sum [16]float64
	for i := range n {
		sum[i%16] += term(i)
	}
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			sum[i] += sum[half+i]
		}
	}
	return sum[0]
}

// TrellisScaleOf returns the scale of a block with the given sums of x·x and
// x·level. If a sum is not above zero, as for rows of length zero, it returns 0.
func (t *Type) TrellisScaleOf(energy, dot float64) float32 {
	switch {
	case math.IsInf(energy, 1):
		return float32(energy)
	case energy == 0 || dot <= 0:
		return 0
	}
	return float32(energy / (dot * float64(t.Scale.Unit)))
}

// Metrics are sums of squares in half steps of the table, stored in 16 bits. Each
// square is limited to trellisFar, so they do not overflow. A path that is so much
// worse than the best one is never chosen.
const (
	trellisSteps = 2
	TrellisReach = 127 * trellisSteps
	trellisFar   = 255
	trellisSeam  = 6 * trellisWindow // number of bits on each side of the seam that decide how it is closed
)

// Near returns how many of n values on each side of the seam the free run
// covers, which are the values in six consecutive windows.
func (c *Trellis) Near(n int) int { return min(trellisSeam/c.Bits, n/2) }

// Trellis is an encoder for one table. It uses 16-bit arithmetic like the
// vector code, so both choose the same windows.
type Trellis struct {
	Bits  int
	Table [trellisLevels]int16 // levels in half steps

	once    sync.Once
	squares *TrellisSquares
}

// TrellisSquares holds the increment that a window adds to a metric, indexed by
// value (from the smallest up) and window.
type TrellisSquares [2*TrellisReach + 1][trellisLevels]uint16

// Squares returns the table of all possible increments. It takes 255 KiB and is
// made at the first use.
func (c *Trellis) Squares() *TrellisSquares {
	c.once.Do(func() {
		c.squares = new(TrellisSquares)
		for i := range c.squares {
			for w, t := range c.Table {
				d := i - TrellisReach - int(t)
				d = min(max(d, -d), trellisFar)
				c.squares[i][w] = uint16(d * d)
			}
		}
	})
	return c.squares
}

func newTrellis(bits int, levels []float32) *Trellis {
	c := &Trellis{Bits: bits}
	for i, v := range levels {
		c.Table[i] = int16(v) * trellisSteps
	}
	return c
}

// Encode chooses a window for each value. Overlapping windows agree, also around
// the end. The values are processed from the last to the first: a window's high
// bits are those of the window after it, and its Bits low bits are new. A free run
// over the values on both sides of the seam decides how the ends meet, and a second
// run begins and ends there.
func (c *Trellis) Encode(w []uint8, z []int16) {
	var cost [trellisLevels / 2]uint16
	var from [maxBlock][trellisLevels / 2]uint8
	states := trellisLevels >> c.Bits
	n := len(z)
	near := c.Near(n)

	k := 0
	for i := near - 1; i >= 0; i-- {
		c.step(cost[:states], &from[k], z[i], k)
		k++
	}
	seam := k
	for i := n - 1; i >= n-near; i-- {
		c.step(cost[:states], &from[k], z[i], k)
		k++
	}
	state := best(cost[:states])
	for k > seam {
		k--
		state = c.Back(state, from[k][state])
	}

	for s := range cost[:states] {
		cost[s] = math.MaxUint16
	}
	cost[state] = 0
	for k := range n {
		c.step(cost[:states], &from[k], z[n-1-k], k)
	}
	for i := range n {
		x := from[n-1-i][state]
		w[i] = x<<(trellisWindow-c.Bits) | uint8(state)
		state = c.Back(state, x)
	}
}

// Back returns the previous state, which is the high bits of the window that ended
// in state.
func (c *Trellis) Back(state int, x uint8) int {
	return (int(x)<<(trellisWindow-c.Bits) | state) >> c.Bits
}

// step adds a value to every path. A state is the low bits of a window, which are
// the high bits of the next window. from records the high bits of the window that
// led there, the lowest among the best. Every fourth step subtracts the smallest
// metric from all.
func (c *Trellis) step(cost []uint16, from *[trellisLevels / 2]uint8, z int16, k int) {
	var next [trellisLevels / 2]uint16
	states := len(cost)
	high := next[:states]
	which := from[:states]
	for x := range 1 << c.Bits {
		// The states that lead to windows with these high bits. Each leads to
		// 2^Bits consecutive windows.
		before := cost[x*states>>c.Bits:]
		table := c.Table[x*states:][:states]
		for s, t := range table {
			d := int32(z) - int32(t)
			d = min(max(d, -d), trellisFar)
			m := min(uint32(before[s>>c.Bits])+uint32(d*d), math.MaxUint16)
			if x == 0 || m < uint32(high[s]) {
				high[s], which[s] = uint16(m), uint8(x)
			}
		}
	}
	least := uint16(0)
	if k%4 == 3 {
		least = high[best(high)]
	}
	for s, v := range high {
		cost[s] = v - least
	}
}

// best returns the first state with the smallest metric.
func best(cost []uint16) (state int) {
	for s, v := range cost {
		if v < cost[state] {
			state = s
		}
	}
	return state
}
