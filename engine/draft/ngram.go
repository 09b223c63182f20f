// Package draft proposes tokens that may come next. A scheduler verifies
// several of them in one step.
package draft

import "godwit/engine/llm"

// The limits of [NGram].
const (
	minMatch  = 3  // number of tokens that must repeat before anything is proposed
	maxMatch  = 32 // largest number of tokens of a repetition that are compared
	maxChain  = 16 // largest number of earlier places that are compared
	firstRate = 0.5
	poorRate  = 0.25 // rate below which only long repetitions are used
	longMatch = 12   // smallest length of a long repetition
)

// NGram looks for earlier places in the text that end with the same tokens as
// the text itself, and proposes what followed there. It compares the places
// that share the last minMatch tokens, the newest first, and uses the longest
// repetition. A longer repetition gives a longer proposal, and rejected
// proposals make later ones shorter. The zero value is ready.
//
// Source: prompt lookup decoding, apoorvumang/prompt-lookup-decoding.
type NGram struct {
	text   []llm.Token // the prediction, followed by the conversation
	given  int         // number of tokens of the prediction
	newest []int32     // for each hash of minMatch tokens, 1 + the newest position at which they end; 0: none
	before []int32     // for each position, 1 + the previous position with the same hash; 0: none

	proposed int
	rate     float64 // recent share of proposed tokens that were accepted
	tried    bool
}

// Predict sets a text that the answer is likely to repeat.
func (g *NGram) Predict(tokens []llm.Token) {
	g.reset(len(tokens))
	g.given = len(tokens)
	g.add(tokens)
}

// reset clears the text and makes room for n tokens.
func (g *NGram) reset(n int) {
	size := 1 << 10
	for size < 2*n {
		size *= 2
	}
	g.text, g.before = make([]llm.Token, 0, n), make([]int32, 0, n)
	g.newest = make([]int32, size)
}

// hash returns the bucket of the minMatch tokens that end at a position.
func (g *NGram) hash(end int) uint32 {
	h := uint32(0)
	for _, t := range g.text[end-minMatch+1 : end+1] {
		h = (h ^ uint32(t)) * 0x9e3779b1
		h ^= h >> 15
	}
	return h & uint32(len(g.newest)-1)
}

// add appends tokens to the text and its index.
func (g *NGram) add(tokens []llm.Token) {
	for _, t := range tokens {
		g.text, g.before = append(g.text, t), append(g.before, 0)
		g.index(len(g.text) - 1)
	}
	if n := len(g.text); n > len(g.newest) {
		g.newest = make([]int32, 4*len(g.newest))
		for at := range n {
			g.index(at)
		}
	}
}

// index adds the minMatch tokens that end at a position to the index.
func (g *NGram) index(at int) {
	if at < minMatch-1 {
		return
	}
	h := g.hash(at)
	g.before[at], g.newest[h] = g.newest[h], int32(at+1)
}

// follow makes tokens the text after the prediction.
func (g *NGram) follow(tokens []llm.Token) {
	have := len(g.text) - g.given
	if have > len(tokens) || g.newest == nil || have > 0 && g.text[len(g.text)-1] != tokens[have-1] {
		prediction := g.text[:min(g.given, len(g.text))]
		g.reset(g.given + 2*len(tokens))
		g.add(prediction)
		have = 0
	}
	g.add(tokens[have:])
}

// Draft proposes at most n tokens that may come after tokens, and appends them to
// dst.
func (g *NGram) Draft(dst, tokens []llm.Token, n int) []llm.Token {
	g.follow(tokens)
	g.proposed = 0
	at, match := g.longest()
	if match == 0 {
		return dst
	}
	n = min(n, g.length(match))
	first := len(dst)
	for i := range n {
		if from := at + 1 + i; from < len(g.text) {
			dst = append(dst, g.text[from])
		} else {
			dst = append(dst, dst[first+from-len(g.text)]) // the proposal repeats its own beginning, because the repetition overlaps the end of the text
		}
	}
	g.proposed = n
	return dst
}

// longest returns the end and the length of the longest repetition of the newest tokens.
func (g *NGram) longest() (at, match int) {
	end := len(g.text) - 1
	if end < minMatch {
		return 0, 0
	}
	p := g.before[end]
	for range maxChain {
		if p == 0 {
			break
		}
		place, n := int(p-1), 0
		for n < maxMatch && place-n >= 0 && g.text[place-n] == g.text[end-n] {
			n++
		}
		if n >= minMatch && n > match {
			at, match = place, n
		}
		p = g.before[place]
	}
	return at, match
}

// length returns how many tokens to propose after a repetition.
func (g *NGram) length(match int) int {
	rate := g.rate
	if !g.tried {
		rate = firstRate
	}
	switch {
	case match >= longMatch:
		return 2 + int(rate*float64(match))
	case rate < poorRate:
		return 0
	}
	return 1 + int(rate*float64(match))
}

// Verified reports how many tokens of the last proposal were accepted.
func (g *NGram) Verified(accepted int) {
	if g.proposed == 0 {
		return
	}
	share := float64(accepted) / float64(g.proposed)
	if !g.tried {
		g.rate, g.tried = firstRate, true
	}
	g.rate += (share - g.rate) / 8
}
