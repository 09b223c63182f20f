package sample

import (
	"cmp"
	"math"
	"slices"

	"godwit/engine/llm"
)

// cand is a candidate on the short list.
type cand struct {
	id    llm.Token
	logit float32
	w     float64 // e^(logit - best), not normalised
	key   float64 // order of the running selection, lowest first
}

// less orders candidates from the least likely on; of equals the highest id.
func less(a, b cand) bool {
	return a.logit < b.logit || a.logit == b.logit && a.id > b.id
}

// offer puts c into the heap of the k most likely and returns the logit that
// the next one has to beat. Callers offer in rising order of ids, so an equal
// logit never displaces one.
func offer(heap []cand, k int, c cand) ([]cand, float32) {
	if len(heap) < k {
		heap = append(heap, c)
		for i := len(heap) - 1; i > 0; {
			up := (i - 1) / 2
			if !less(heap[i], heap[up]) {
				break
			}
			heap[i], heap[up] = heap[up], heap[i]
			i = up
		}
	} else {
		heap[0] = c
		for i := 0; ; {
			down := 2*i + 1
			if down >= len(heap) {
				break
			}
			if down+1 < len(heap) && less(heap[down+1], heap[down]) {
				down++
			}
			if !less(heap[down], heap[i]) {
				break
			}
			heap[i], heap[down] = heap[down], heap[i]
			i = down
		}
	}
	if len(heap) < k {
		return heap, float32(math.Inf(-1))
	}
	return heap, heap[0].logit
}

// byRank sorts the most likely first, of equals the lowest id.
func byRank(a, b cand) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// before is the order of the keys; of equals the lowest id comes first. No key
// is NaN.
func before(a, b *cand) bool {
	return a.key < b.key || a.key == b.key && a.id < b.id
}

func byKey(a, b cand) int {
	switch {
	case before(&a, &b):
		return -1
	case a.id == b.id:
		return 0
	}
	return 1
}

// sortedBelow is the length from which a list is not sorted whole.
const sortedBelow = 128

// prefix moves the candidates with the lowest keys to the front, as many as it
// takes for their weights to reach mass, and returns how many; at least one.
// It halves the list about a pivot until the rest is short enough to sort, so
// its time grows with the length alone.
func prefix(c []cand, mass float64) int {
	lo, hi, sum := 0, len(c), 0.0
	for state := uint64(len(c)); hi-lo > sortedBelow; {
		state = state*6364136223846793005 + 1442695040888963407
		mid, left := split(c, lo, hi, lo+int((state>>33)%uint64(hi-lo)))
		if sum+left >= mass {
			hi = mid
		} else {
			sum += left
			lo = mid
		}
	}
	slices.SortFunc(c[lo:hi], byKey)
	for i := lo; i < hi; i++ {
		sum += c[i].w
		if sum >= mass {
			return i + 1
		}
	}
	return max(hi, 1)
}

// split puts the candidates of c[lo:hi] that come before the pivot first and
// the pivot right behind them. It returns where the part after them begins,
// never lo nor hi, and the weight of the part before.
func split(c []cand, lo, hi, pivot int) (mid int, left float64) {
	p := c[pivot]
	c[pivot], c[hi-1] = c[hi-1], p
	mid = lo
	for i := lo; i < hi-1; i++ {
		if before(&c[i], &p) {
			c[i], c[mid] = c[mid], c[i]
			left += c[mid].w
			mid++
		}
	}
	c[mid], c[hi-1] = p, c[mid]
	if mid == lo { // the pivot is the first: it is the part before
		return lo + 1, p.w
	}
	return mid, left
}

// typical keeps the candidates whose information content is nearest to the
// entropy, as many as hold share p of the mass.
// Source: arXiv 2202.00666.
func typical(c []cand, best float32, p float64) []cand {
	total, mean := 0.0, 0.0 // mean is Σ w·ln w
	for i := range c {
		c[i].key = float64(c[i].logit) - float64(best) // ln w
		total += c[i].w
		if c[i].w > 0 {
			mean += float64(c[i].w * c[i].key)
		}
	}
	// -ln p of a token is ln total - ln w, and the entropy ln total - mean/total
	for i := range c {
		c[i].key = math.Abs(mean/total - c[i].key)
	}
	return c[:prefix(c, p*total)]
}

func weight(c []cand) (total float64) {
	for i := range c {
		total += c[i].w
	}
	return total
}

// topP keeps the most likely candidates, as many as hold the given mass.
// Source: arXiv 1904.09751.
func topP(c []cand, mass float64) []cand {
	for i := range c {
		c[i].key = -float64(c[i].logit)
	}
	return c[:prefix(c, mass)]
}

// minP keeps candidates at least p times as likely as the first.
// Source: arXiv 2407.01082.
func minP(c []cand, p float64) []cand {
	best := 0.0
	for i := range c {
		best = max(best, c[i].w)
	}
	cut := p * best
	return slices.DeleteFunc(c, func(x cand) bool { return x.w < cut })
}

// xtc drops all candidates of at least the threshold's probability but the
// least likely one of them.
// Source: text-generation-webui pull request 6335, "exclude top choices".
func xtc(c []cand, threshold float64) []cand {
	cut := threshold * weight(c)
	last := -1
	for i := range c {
		if c[i].w >= cut && (last < 0 || less(c[i], c[last])) {
			last = i
		}
	}
	if last < 0 {
		return c
	}
	keep := c[last].id
	return slices.DeleteFunc(c, func(x cand) bool { return x.w >= cut && x.id != keep })
}
