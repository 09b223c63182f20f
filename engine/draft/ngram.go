// Package draft proposes tokens that may come next, for a scheduler that verifies
// several of them in one step.
package draft

import "godwit/engine/llm"

// The limits of [NGram].
const (
	minMatch  = 3  // tokens that have to repeat before anything is proposed
	maxMatch  = 32 // tokens of a repetition that are compared
	maxChain  = 16 // earlier places that are compared
	firstRate = 0.5
	poorRate  = 0.25 // below it only long repetitions are followed
	longMatch = 12   // a long repetition
)

// NGram proposes what followed when the newest tokens stood in the text before. It
// compares the places that share the last minMatch tokens, the newest first, and
// follows the longest repetition. How much it proposes grows with the length of the
// repetition, and it proposes less while its proposals are rejected. The zero value
// is ready.
//
// Source: prompt lookup decoding, apoorvumang/prompt-lookup-decoding.
type NGram struct {
	text   []llm.Token // the prediction, then the conversation
	given  int         // tokens of the prediction
	newest []int32     // the newest place, by hash of the minMatch tokens that end there, plus 1
	before []int32     // the place before, by place, plus 1

	proposed int
	rate     float64 // recent share of proposed tokens that were accepted
	tried    bool
}

// Predict gives a text that the answer is likely to repeat.
func (g *NGram) Predict(tokens []llm.Token) {
	g.reset(len(tokens))
	g.given = len(tokens)
	g.add(tokens)
}

// reset forgets the text, and makes room for n tokens.
func (g *NGram) reset(n int) {
	size := 1 << 10
	for size < 2*n {
		size *= 2
	}
	g.text, g.before = make([]llm.Token, 0, n), make([]int32, 0, n)
	g.newest = make([]int32, size)
}

// hash is the bucket of the minMatch tokens that end at a place.
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

// index enters the minMatch tokens that end at a place.
func (g *NGram) index(at int) {
	if at < minMatch-1 {
		return
	}
	h := g.hash(at)
	g.before[at], g.newest[h] = g.newest[h], int32(at+1)
}

// follow makes tokens the text behind the prediction.
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

// Draft appends at most n tokens that may follow tokens to dst.
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
			dst = append(dst, dst[first+from-len(g.text)]) // the repetition overlaps what is proposed
		}
	}
	g.proposed = n
	return dst
}

// longest finds the end of the longest repetition of the newest tokens, and its length.
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

// length is how many tokens to propose behind a repetition.
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

// Verified says how many tokens of the last proposal were accepted.
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
