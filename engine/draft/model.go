package draft

import (
	"time"

	"godwit/engine/llm"
)

// Continuer is a model that continues a text.
type Continuer interface {
	// Read makes the model read a text. It returns false if some of it is left for the
	// next call.
	Read(tokens []llm.Token) bool
	// Continue calls next with the most likely token after the text and its probability.
	// While next returns true, it does the same with the text and that token.
	Continue(tokens []llm.Token, next func(t llm.Token, p float64) bool)
}

// The limits of [Model].
const (
	firstChance = 0.7 // assumed chance of the first token before anything was verified
	firstPause  = 24  // steps without a proposal before one is tried again
	longPause   = 1024
	leastTrust  = 0.05
	mostTrust   = 3
)

// Model proposes what a smaller model would write. It proposes a token if the time that
// its chance of being right saves is longer than the time to compute and verify it. The
// chance of a token is the product of the smaller model's probabilities so far, times
// the share of earlier proposals that were right. Where drafts do not pay, one token is tried
// now and then, at growing intervals.
type Model struct {
	From  Continuer
	Costs *Costs

	trust    float64 // accepted tokens in proportion to expected ones; 0 before the first
	first    float64 // recent chance of the first token of a proposal
	expected float64 // expected number of accepted tokens of the last proposal
	proposed int     // number of tokens of the last proposal
	most     int     // largest number of tokens of the next proposal
	skipped  int     // steps since the last proposal
	pause    int     // steps without a proposal before the next one is tried
}

// Slow marks a drafter that computes its proposals with a model.
func (m *Model) Slow() {}

// Draft appends at most n tokens that may follow tokens to dst.
func (m *Model) Draft(dst, tokens []llm.Token, n int) []llm.Token {
	if m.trust == 0 {
		m.trust, m.first = m.Costs.chances()
		m.most, m.pause = 1, firstPause
	}
	m.proposed, m.expected, n = 0, 0, min(n, m.most)
	step, row, token := m.Costs.draft()
	pays := min(m.trust*m.first, 1)*step >= row+token
	switch {
	case pays:
		m.pause = firstPause
	case m.skipped < m.pause:
		m.skipped++
		return dst
	default: // conditions may have changed
		m.pause = min(2*m.pause, longPause)
	}
	if !m.From.Read(tokens) {
		return dst
	}
	chance, computed, begun := 1.0, 0, time.Now()
	m.From.Continue(tokens, func(t llm.Token, p float64) bool {
		computed++
		chance *= p
		gain := min(m.trust*chance, 1) * step
		if computed == 1 {
			m.first += (p - m.first) / 8
		}
		if gain < row && pays {
			return false
		}
		dst = append(dst, t)
		m.proposed++
		m.expected += chance
		return m.proposed < n && pays && gain*m.first > row+token
	})
	m.skipped = 0
	m.Costs.drafted(computed, time.Since(begun))
	return dst
}

// Verified reports how many tokens of the last proposal were accepted.
func (m *Model) Verified(accepted int) {
	if m.proposed == 0 {
		return
	}
	share := (float64(accepted) + 0.25) / (m.expected + 0.25)
	m.trust += (share - m.trust) / 8
	m.trust = min(max(m.trust, leastTrust), mostTrust)
	m.Costs.verified(m.trust, m.first)
	if m.most = max(accepted, 1); accepted == m.proposed {
		m.most = 2 * m.proposed
	}
}
