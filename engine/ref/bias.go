package ref

import (
	"math"

	"godwit/engine/graph"
)

// sees returns the range of positions that a row attends to.
func sees(a graph.Attention, pos, length int) (lo, hi int) {
	hi = pos + 1
	if a.Bidirectional {
		hi = length
	}
	seen := func(p int) bool {
		switch {
		case a.Chunk > 0 && p/a.Chunk != pos/a.Chunk:
			return false
		case a.Window > 0 && a.Bidirectional:
			return 2*max(p-pos, pos-p) <= a.Window
		case a.Window > 0:
			return pos-p < a.Window
		}
		return true
	}
	for lo < hi-1 && !seen(lo) {
		lo++
	}
	for hi-1 > lo && !seen(hi-1) {
		hi--
	}
	return lo, hi
}

// bias returns the value that head h adds to the score of a key. behind is the
// key's position minus the query's.
func (m *Machine) bias(a graph.Attention, h, behind int) (sum float64) {
	if slope := float64(a.Bias.ALiBi); slope != 0 {
		n := math.Exp2(math.Floor(math.Log2(float64(a.Heads))))
		base := math.Pow(2, -slope/n)
		exp := float64(h + 1)
		if float64(h) >= n {
			base, exp = math.Pow(2, -slope/2/n), 2*(float64(h)-n)+1
		}
		sum -= math.Pow(base, exp) * math.Abs(float64(behind))
	}
	if r := a.Bias.Relative; r != nil {
		sum += m.weight(r)[bucket(behind, r.Rows(), a.Bidirectional)*a.Heads+h]
	}
	return sum
}

// bucket returns the bucket of a distance. Half of the buckets hold one
// distance each, and the others grow logarithmically.
func bucket(behind, n int, both bool) int {
	add := 0
	if both {
		n /= 2
		if behind > 0 {
			add = n
		}
	} else if behind > 0 {
		behind = 0
	}
	d := math.Abs(float64(behind))
	half := float64(n / 2)
	if d >= half {
		d = math.Min(math.Floor(half+math.Log(d/half)/math.Log(128/half)*(float64(n)-half)), float64(n-1))
	}
	return add + int(d)
}
