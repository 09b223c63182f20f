package sample

import (
	"bytes"
	"math"

	"godwit/engine/llm"
)

const (
	dryBase         = 1.75
	dryAllowed      = 2
	xtcThreshold    = 0.1
	maxBreakers     = 64
	maxBreakerBytes = 256
)

// breaks reports whether a breaker ends inside piece, which follows the text
// whose end is s.tail, and moves the tail on.
func (s *Sampler) breaks(piece []byte) bool {
	if s.longest == 0 {
		return false
	}
	old := len(s.tail)
	s.tail = append(s.tail, piece...)
	found := false
	for _, b := range s.breakers {
		if from := max(0, old-len(b)+1); bytes.Contains(s.tail[from:], b) {
			found = true
			break
		}
	}
	if cut := len(s.tail) - (s.longest - 1); cut > 0 {
		s.tail = append(s.tail[:0], s.tail[cut:]...)
	}
	return found
}

// dry lowers the logit of each token that would make the text's end repeat an
// earlier passage longer than allowed, by multiplier · base^(length - allowed).
// Passages do not extend across breakers.
// Source: text-generation-webui pull request 5677, "don't repeat yourself".
func (s *Sampler) dry(logits []float32) {
	p := &s.p
	if p.DRYMultiplier == 0 || p.DRYLastN == 0 {
		return
	}
	hist := s.hist
	if n := p.DRYLastN; n > 0 && n < len(hist) {
		hist = hist[len(hist)-n:]
	}
	limit := min(s.since, len(hist)) // tokens since the last breaker
	if limit < p.DRYAllowedLength || len(hist) <= p.DRYAllowedLength {
		return
	}
	lengths := s.suffixes(hist, limit)
	s.worst = s.worst[:0]
	for end, n := range lengths { // hist[:end+1] ends like hist for n tokens
		if int(n) < p.DRYAllowedLength || end+1 >= len(hist) {
			continue
		}
		s.note(hist[end+1], n)
	}
	for _, w := range s.worst {
		if s.isBreaker(w.tok) {
			continue
		}
		cost := p.DRYMultiplier
		for range int(w.n) - p.DRYAllowedLength {
			if cost *= p.DRYBase; cost > math.MaxFloat32 {
				cost = math.MaxFloat32
				break
			}
		}
		s.alter(logits, w.tok, max(logits[w.tok]-float32(cost), -math.MaxFloat32))
	}
	s.index.reset()
}

// note keeps the longest repetition that token t would extend.
func (s *Sampler) note(t llm.Token, n int32) {
	if i := s.index.find(t); s.index.slots[i].n != 0 {
		w := &s.worst[s.index.slots[i].n-1]
		w.n = max(w.n, n)
		return
	}
	s.worst = append(s.worst, slot{t, n})
	s.index.put(t, int32(len(s.worst)))
}

// isBreaker reports whether the token by itself holds a breaker.
func (s *Sampler) isBreaker(t llm.Token) bool {
	if s.longest == 0 {
		return false
	}
	piece := s.piece(t)
	for _, b := range s.breakers {
		if bytes.Contains(piece, b) {
			return true
		}
	}
	return false
}

// suffixes returns for each end i how many tokens, at most limit, hist[:i+1]
// and hist end alike: the Z array of the reversed history, in linear time.
func (s *Sampler) suffixes(hist []llm.Token, limit int) []int32 {
	n := len(hist)
	if cap(s.z) < n {
		s.z = make([]int32, n+n/2)
	}
	z := s.z[:n]
	at := func(i int) llm.Token { return hist[n-1-i] }
	z[n-1] = 0 // the history itself
	for i, l, r := 1, 0, 0; i < n; i++ {
		k := 0
		if i < r {
			k = min(r-i, int(z[n-1-(i-l)]))
		}
		for i+k < n && at(k) == at(i+k) {
			k++
		}
		z[n-1-i] = int32(k)
		if i+k > r {
			l, r = i, i+k
		}
	}
	for i := range z {
		z[i] = min(z[i], int32(limit))
	}
	return z
}
