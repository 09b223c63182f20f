package sample

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"godwit/engine/llm"
)

// Sampler draws the tokens of one sequence. It is not safe for concurrent use.
type Sampler struct {
	p     Params
	vocab int
	piece func(llm.Token) []byte
	rng   *rand.PCG
	seed  int64

	bias      []change
	changes   []change // changes of the current row
	penalised bool
	seen      counts // the newest RepeatLastN tokens

	hist     []llm.Token // the newest tokens, at least keep of them
	keep     int         // -1: all
	breakers [][]byte
	longest  int
	tail     []byte // end of the text, shorter than the longest breaker
	since    int    // tokens since the last breaker

	z     []int32 // scratch of DRY
	worst []slot
	index counts

	list []cand    // scratch of the chain
	part []float64 // sums of blocks
}

// pcgStream is the second half of the generator's seed. The first half is
// Params.Seed.
const pcgStream = 0x9e3779b97f4a7c15

// New returns the sampler of a sequence over a vocabulary of the given size.
// piece returns a token's text, in which DRY looks for its breakers. Without
// piece, DRY has no breakers. New fails if [Params.Validate] does, or if a bias
// is for a token outside the vocabulary.
func New(p Params, vocab int, piece func(llm.Token) []byte) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &Sampler{p: p, vocab: vocab, piece: piece, seed: p.Seed}
	for _, t := range slices.Sorted(maps.Keys(p.LogitBias)) {
		if int(t) >= vocab {
			return nil, fmt.Errorf("%w: logit_bias has the token %d, but the vocabulary has %d tokens", ErrParam, t, vocab)
		}
		s.bias = append(s.bias, change{t, float32(p.LogitBias[t])})
	}
	if s.seed == -1 {
		s.seed = int64(rand.Uint64() >> 11) // exact in JSON's numbers
	}
	s.rng = rand.NewPCG(uint64(s.seed), pcgStream)
	s.defaults()
	if s.penalised {
		s.keep = s.p.RepeatLastN
		s.seen = newCounts(min(max(s.keep, 0), vocab))
	}
	if s.p.DRYMultiplier != 0 {
		s.index = newCounts(0)
		if s.keep >= 0 {
			s.keep = max(s.keep, s.p.DRYLastN)
		}
		if s.p.DRYLastN < 0 {
			s.keep = -1
		}
	}
	if s.keep > 0 {
		s.hist = make([]llm.Token, 0, 2*s.keep)
	}
	return s, nil
}

// defaults sets the defaults of zero fields and copies what the caller may
// change.
func (s *Sampler) defaults() {
	p := &s.p
	if p.RepeatPenalty == 0 {
		p.RepeatPenalty = 1
	}
	if p.DRYBase == 0 {
		p.DRYBase = dryBase
	}
	if p.DRYAllowedLength == 0 {
		p.DRYAllowedLength = dryAllowed
	}
	if p.XTCThreshold == 0 {
		p.XTCThreshold = xtcThreshold
	}
	p.LogitBias = nil
	s.penalised = p.RepeatLastN != 0 && (p.RepeatPenalty != 1 || p.FrequencyPenalty != 0 || p.PresencePenalty != 0)
	if s.piece != nil && p.DRYMultiplier != 0 {
		for _, b := range p.DRYBreakers {
			s.breakers = append(s.breakers, []byte(b))
			s.longest = max(s.longest, len(b))
		}
	}
	p.DRYBreakers = nil
}

// Seed returns the seed in use, which is from Params, or was chosen because
// Params has -1.
func (s *Sampler) Seed() int64 { return s.seed }

// Accept records the next token of the sequence, whether it was drawn or
// belongs to the prompt.
func (s *Sampler) Accept(t llm.Token) {
	if t < 0 || int(t) >= s.vocab || s.keep == 0 {
		return
	}
	if s.longest > 0 {
		s.since++
		if s.breaks(s.piece(t)) {
			s.since = 0
		}
	} else {
		s.since++
	}
	if s.keep > 0 && len(s.hist) == cap(s.hist) {
		s.hist = append(s.hist[:0], s.hist[len(s.hist)-s.keep:]...)
	}
	s.hist = append(s.hist, t)
	if s.penalised {
		s.seen.add(t)
		if n := s.p.RepeatLastN; n > 0 && len(s.hist) > n {
			s.seen.remove(s.hist[len(s.hist)-1-n])
		}
	}
}

// Prime accepts the tokens of a prompt. It skips rows of pictures, whose ids are
// negative, because they cannot be repeated.
func (s *Sampler) Prime(prompt []llm.Token) {
	for _, t := range prompt {
		if t >= 0 {
			s.Accept(t)
		}
	}
}

// Sample draws from a row of logits, with one for each token of the vocabulary,
// among the tokens of the mask. It changes the row and restores it before it
// returns. The token counts as seen only after Accept.
func (s *Sampler) Sample(logits []float32, mask Mask) (llm.Token, error) {
	if len(logits) != s.vocab {
		return 0, fmt.Errorf("%w: %d of them for a vocabulary of %d", ErrLogits, len(logits), s.vocab)
	}
	v := view{logits, mask}
	if mask != nil && len(mask) < v.blocks() {
		return 0, fmt.Errorf("%w: mask of %d words, want %d", ErrLogits, len(mask), v.blocks())
	}
	s.adjust(logits)
	t, err := s.pick(v)
	s.restore(logits)
	return t, err
}

// Top returns how many of the largest logits Sample reads if every token is
// allowed. Among equals, these are the lowest tokens. It returns 0 if Sample
// reads all logits. The others may then be minus infinity.
func (s *Sampler) Top() int {
	p := &s.p
	switch {
	case len(s.bias) > 0 || s.penalised || p.DRYMultiplier != 0:
		return 0
	case p.Temperature == 0:
		return 1
	case p.TopK < s.vocab:
		return p.TopK
	}
	return 0
}

func on(mass float64) bool { return mass > 0 && mass < 1 }

// pick runs the chain after the penalties.
func (s *Sampler) pick(v view) (llm.Token, error) {
	p := &s.p
	if p.Temperature == 0 {
		_, id, err := v.max()
		return id, err
	}
	if !s.short(v) && !on(p.TypicalP) && !on(p.TopP) && p.MinP == 0 && !s.excludes() {
		best, _, err := v.max()
		if err != nil {
			return 0, err
		}
		return s.scan(v, best), nil
	}
	list, err := s.reduce(v)
	if err != nil {
		return 0, err
	}
	return s.draw(list), nil
}

// reduce returns the candidates that the chain keeps.
func (s *Sampler) reduce(v view) ([]cand, error) {
	p := &s.p
	list, best, total, err := s.candidates(v)
	if err != nil {
		return nil, err
	}
	if on(p.TypicalP) {
		list = typical(list, best, p.TypicalP)
		total = weight(list)
	}
	if on(p.TopP) {
		list = topP(list, p.TopP*total)
	}
	if p.MinP > 0 {
		list = minP(list, p.MinP)
	}
	if s.excludes() && s.uniform() < p.XTCProbability && len(list) > 1 {
		list = xtc(list, p.XTCThreshold)
	}
	return list, nil
}

func (s *Sampler) short(v view) bool { return s.p.TopK > 0 && s.p.TopK < len(v.logits) }

func (s *Sampler) excludes() bool { return s.p.XTCProbability > 0 && s.p.XTCThreshold <= 0.5 }

// candidates returns the list for the rest of the chain, with weights, the best
// logit, and the mass of all candidates after top-k. The list may lack
// candidates that min-p or top-p will certainly drop.
func (s *Sampler) candidates(v view) (list []cand, best float32, total float64, err error) {
	p := &s.p
	if s.short(v) {
		if s.list, err = v.top(s.list, p.TopK); err != nil {
			return nil, 0, 0, err
		}
		best = s.list[0].logit
		return s.list, best, weighted(s.list, best), nil
	}
	if best, _, err = v.max(); err != nil {
		return nil, 0, 0, err
	}
	s.list, total = s.long(v, best)
	return s.list, best, total, nil
}

// headroom is how far below the best logit, in nats, the first attempt searches
// for the candidates of the top-p mass.
const headroom = 8

// long handles candidates without top-k.
func (s *Sampler) long(v view, best float32) (list []cand, total float64) {
	p := &s.p
	cut := -math.MaxFloat32 // banned tokens have -Inf
	if !on(p.TypicalP) && p.MinP > 0 {
		// minP compares weights; a thousandth of a nat is far above their rounding
		cut = max(cut, float64(best)+ln(p.MinP)-1e-3)
	}
	if on(p.TypicalP) || !on(p.TopP) {
		list = v.gather(s.list[:0], float32(cut))
		return list, weighted(list, best)
	}
	total = v.sum(best, 1, nil)
	list = v.gather(s.list[:0], max(float32(cut), best-headroom))
	if weighted(list, best) < p.TopP*total && cut < float64(best)-headroom {
		list = v.gather(list[:0], float32(cut))
		weighted(list, best)
	}
	return list, total
}

// weighted sets the weights of a list and returns their sum.
func weighted(c []cand, best float32) (total float64) {
	for i := range c {
		c[i].w = exp(float64(c[i].logit) - float64(best))
		total += c[i].w
	}
	return total
}

// scale returns the reciprocal of the temperature, which is finite for every
// temperature above 0.
func (s *Sampler) scale() float64 { return min(1/s.p.Temperature, math.MaxFloat64) }

// uniform returns a number in [0, 1).
func (s *Sampler) uniform() float64 { return float64(s.rng.Uint64()>>11) * 0x1p-53 }

// draw draws an element of the list by its share at the temperature.
func (s *Sampler) draw(c []cand) llm.Token {
	best := c[0].logit
	for i := range c {
		best = max(best, c[i].logit)
	}
	scale, total := s.scale(), 0.0
	for i := range c {
		c[i].w = exp(float64((float64(c[i].logit) - float64(best)) * scale))
		total += c[i].w
	}
	rest := float64(s.uniform() * total)
	last := 0
	for i := range c {
		if c[i].w == 0 {
			continue
		}
		if rest < c[i].w {
			return c[i].id
		}
		rest -= c[i].w
		last = i
	}
	return c[last].id // because of rounding, no element was reached
}

// scan draws from all candidates without a list. It first draws a block and
// then a token of the block.
func (s *Sampler) scan(v view, best float32) llm.Token {
	if len(s.part) < v.blocks() {
		s.part = make([]float64, v.blocks())
	}
	scale := s.scale()
	rest := float64(s.uniform() * v.sum(best, scale, s.part))
	b := 0
	for i, sub := range s.part[:v.blocks()] {
		if sub > 0 {
			b = i
			if rest < sub {
				break
			}
			rest -= sub
		}
	}
	row, word, _ := v.row(b)
	last := 0
	for i, x := range row {
		if word>>i&1 == 0 {
			continue
		}
		w := exp(float64((float64(x) - float64(best)) * scale))
		if w == 0 {
			continue
		}
		last = i
		if rest < w {
			break
		}
		rest -= w
	}
	return llm.Token(b*block + last)
}
