package graph

import "math"

// Bias is what attention adds to a score for the distance between query and key.
// The zero value adds nothing.
type Bias struct {
	// ALiBi lowers the score by slope·distance, with a slope for each head: 2^(-ALiBi·(h+1)/n)
	// for the first n heads, n the largest power of two up to their number, and
	// 2^(-ALiBi·(2(h-n)+1)/2n) for the others. Source: arXiv 2108.12409.
	ALiBi float32
	// Relative is [heads, buckets]: a learned value for each bucket of distances, the
	// first half of them exact, the others spaced by logarithm up to 128; without a causal
	// mask half of the buckets stand for keys behind the query. Source: arXiv 1910.10683.
	Relative *Weight
}

// On reports whether there is a bias.
func (b *Bias) On() bool { return b.ALiBi != 0 || b.Relative != nil }

// Slope returns the slope of a head.
func (b *Bias) Slope(head, heads int) float32 {
	n := 1
	for 2*n <= heads {
		n *= 2
	}
	exp := float64(head+1) / float64(n)
	if head >= n {
		exp = float64(2*(head-n)+1) / float64(2*n)
	}
	return float32(math.Exp2(-float64(b.ALiBi) * exp))
}

// farthest is the smallest distance in the last bucket, which all larger ones share.
const farthest = 128

// Bucket returns the bucket of a key so many positions behind the query.
func (b *Bias) Bucket(behind int, both bool) int {
	n, first := b.Relative.Rows(), 0
	if both {
		n /= 2
		if behind > 0 {
			first = n
		}
		behind = max(behind, -behind)
	} else {
		behind = -min(behind, 0)
	}
	exact := n / 2
	if behind < exact {
		return first + behind
	}
	far := float64(exact) + math.Log(float64(behind)/float64(exact))*float64(n-exact)/math.Log(farthest/float64(exact))
	return first + min(int(far), n-1)
}

// Sees returns the positions from up to, but not including, to that a row at pos of a
// sequence of length cells sees. With Bidirectional a window reaches half of its
// width to either side.
func (a *Attention) Sees(pos, length int) (from, to int) {
	to = length
	if !a.Bidirectional {
		to = min(to, pos+1)
	}
	switch {
	case a.Window > 0 && a.Bidirectional:
		from, to = max(0, pos-a.Window/2), min(to, pos+a.Window/2+1)
	case a.Window > 0:
		from = max(0, pos-a.Window+1)
	}
	if a.Chunk > 0 {
		from = max(from, pos-pos%a.Chunk)
	}
	return from, to
}
