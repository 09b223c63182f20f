package graph

import "math"

// Bias is added to the scores of attention, depending on the distance between
// query and key. The zero value adds nothing.
type Bias struct {
	// ALiBi lowers the score by slope·distance. Each head has a slope: 2^(-ALiBi·(h+1)/n) for
	// the first n heads, and 2^(-ALiBi·(2(h-n)+1)/(2n)) for the others, where n is the
	// largest power of two that is at most the number of heads. Source: arXiv 2108.12409.
	ALiBi float32
	// Relative is [heads, buckets], with a learned value for each bucket of distances. The
	// first half of the buckets have one distance each, and the others are spaced
	// logarithmically up to 128. Without a causal mask, half of the buckets are for keys
	// after the query. Source: arXiv 1910.10683.
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

// farthest is the smallest distance in the last bucket. All larger distances are in
// the same bucket.
const farthest = 128

// Bucket returns the bucket of a key. behind is the key's position minus the
// query's. both means that there is no causal mask.
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

// Sees returns the range of positions [from, to) that a row at pos sees in a
// sequence of the given length. With Bidirectional, half of the window is on
// either side of the row.
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
