package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"godwit/engine"
	"godwit/engine/llm"
)

// KLDResult compares the distributions of a cache type with those of f16.
type KLDResult struct {
	Mean       float64 `json:"kld_mean"`   // mean KL divergence, in nats
	Stderr     float64 `json:"kld_stderr"` // nats; computed, like the other standard errors, over blocks of neighbouring positions
	Median     float64 `json:"kld_median"`
	P99        float64 `json:"kld_p99"`
	P999       float64 `json:"kld_p999"`
	Max        float64 `json:"kld_max"`
	Top1       float64 `json:"top1"` // share of positions with the same likeliest token
	Top1Stderr float64 `json:"top1_stderr"`
	TopP       float64 `json:"top_p"` // tokens that both distributions need for a probability of 0.9, as a share of the tokens that either needs
	TopPStderr float64 `json:"top_p_stderr"`
	DeltaP     float64 `json:"delta_p_mean"` // change in the probability of the true token
	DeltaPRMS  float64 `json:"delta_p_rms"`
	Perplexity float64 `json:"perplexity"`
	BasePPL    float64 `json:"perplexity_base"`
	Tokens     int     `json:"tokens"`
	TypeK      string  `json:"type_k"`
	TypeV      string  `json:"type_v"`
}

// kldStats gathers what KLDResult reports.
type kldStats struct {
	kld, top1, topP           blocked
	delta, deltaSq, nll, base mean
	all                       []float64
	setP, setQ                nucleus
}

// add compares one position in the given block of the text. truth is the token
// that actually follows.
func (s *kldStats) add(base, got []float32, truth llm.Token, block int) error {
	zq, err := logSum(got)
	if err != nil {
		return err
	}
	// One pass computes everything. With w = e^(b-top), and the sums Z of w and
	// D of w(b-g), the divergence Σ p (log p − log q) is D/Z − log-sum of b +
	// log-sum of g.
	bestP, bestQ := 0, 0
	for i := range base {
		if base[i] > base[bestP] {
			bestP = i
		}
		if got[i] > got[bestQ] {
			bestQ = i
		}
	}
	top := float64(base[bestP])
	var sum, diff float64
	for i, b := range base {
		w := math.Exp(float64(b) - top)
		sum += w
		if w > 0 { // both logits of a token with probability 0 may be -Inf, whose difference is NaN
			diff += w * (float64(b) - float64(got[i]))
		}
	}
	zp := top + math.Log(sum)
	kl := diff/sum - zp + zq
	if math.IsNaN(kl) || math.IsInf(kl, 0) {
		return ErrNaN
	}
	s.kld.add(block, math.Max(kl, 0))
	s.all = append(s.all, math.Max(kl, 0))
	same := 0.0
	if bestP == bestQ {
		same = 1
	}
	s.top1.add(block, same)
	s.topP.add(block, overlap(s.setP.of(base, zp), s.setQ.of(got, zq)))
	lp, lq := float64(base[truth])-zp, float64(got[truth])-zq
	d := math.Exp(lq) - math.Exp(lp)
	s.delta.add(d)
	s.deltaSq.add(d * d)
	s.nll.add(-lq)
	s.base.add(-lp)
	return nil
}

func (s *kldStats) result() KLDResult {
	slices.Sort(s.all)
	at := func(q float64) float64 { return s.all[min(len(s.all)-1, int(q*float64(len(s.all))))] }
	return KLDResult{
		Mean: s.kld.value(), Stderr: s.kld.stderr(), Median: at(0.5), P99: at(0.99), P999: at(0.999), Max: at(1),
		Top1: s.top1.value(), Top1Stderr: s.top1.stderr(), TopP: s.topP.value(), TopPStderr: s.topP.stderr(), DeltaP: s.delta.value(), DeltaPRMS: math.Sqrt(s.deltaSq.value()),
		Perplexity: math.Exp(s.nll.value()), BasePPL: math.Exp(s.base.value()), Tokens: int(s.kld.n),
	}
}

// nucleusMass is the total probability of a nucleus.
const nucleusMass = 0.9

// nucleus finds the fewest tokens that together have a probability of
// nucleusMass. It reuses its memory.
type nucleus struct {
	ids []int32
	set []int32
}

// of returns the nucleus in ascending order.
func (n *nucleus) of(logits []float32, sum float64) []int32 {
	n.ids = n.ids[:0]
	// Less likely tokens are never in the nucleus, because all of them together
	// have less than the remaining probability.
	least := float32(sum + math.Log((1-nucleusMass)/float64(len(logits))))
	for i, v := range logits {
		if v >= least {
			n.ids = append(n.ids, int32(i))
		}
	}
	slices.SortFunc(n.ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	})
	var mass float64
	k := 0
	for k < len(n.ids) && mass < nucleusMass {
		mass += math.Exp(float64(logits[n.ids[k]]) - sum)
		k++
	}
	n.set = append(n.set[:0], n.ids[:k]...)
	slices.Sort(n.set)
	return n.set
}

// overlap returns the size of the intersection of two ascending sets, as a
// share of their union.
func overlap(a, b []int32) float64 {
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			both, i, j = both+1, i+1, j+1
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return float64(both) / float64(max(len(a)+len(b)-both, 1))
}

// KLD compares e with base, an engine of the same model at f16, in one run.
func KLD(ctx context.Context, base, e *engine.Engine, tokens []llm.Token, w Window) (KLDResult, error) {
	vocab := e.Config().Vocab
	if base.Config().Vocab != vocab {
		return KLDResult{}, fmt.Errorf("the base has a vocabulary of %d tokens, but the model has one of %d", base.Config().Vocab, vocab)
	}
	rows := make([]float32, 0, (w.Context/2)*vocab)
	prepare := func(_ int, c []llm.Token) error {
		rows = rows[:0]
		return base.EachLogits(ctx, c, w.counted, false, func(_ int, row []float32) error {
			rows = append(rows, row...)
			return nil
		})
	}
	return kld(ctx, e, tokens, w, prepare, func(_, n int) ([]float32, error) { return rows[n*vocab : (n+1)*vocab], nil })
}

// KLDFrom compares e with the log-probabilities that SaveBase stored.
func KLDFrom(ctx context.Context, b *Base, e *engine.Engine, tokens []llm.Token, w Window) (KLDResult, error) {
	chunks, err := w.chunks(tokens)
	if err == nil {
		err = b.check(e, chunks, &w)
	}
	if err != nil {
		return KLDResult{}, err
	}
	row := make([]float32, b.head.Vocab)
	prepare := func(int, []llm.Token) error { return nil }
	return kld(ctx, e, tokens, w, prepare, func(chunk, n int) ([]float32, error) { return row, b.read(row, chunk, n) })
}

// kld compares e with rows. It calls prepare before each chunk, and row for
// each counted position of the chunk.
func kld(ctx context.Context, e *engine.Engine, tokens []llm.Token, w Window, prepare func(int, []llm.Token) error, row func(chunk, n int) ([]float32, error)) (KLDResult, error) {
	chunks, err := w.chunks(tokens)
	if err != nil {
		return KLDResult{}, err
	}
	var s kldStats
	for i, c := range chunks {
		n := 0
		err := prepare(i, c)
		if err == nil {
			err = eachLogits(ctx, e, i, c, w.counted, func(pos int, got []float32) error {
				base, err := row(i, n)
				if err != nil {
					return err
				}
				n++
				if s.add(base, got, c[pos+1], (i*w.Context+pos)/blockTokens) != nil {
					return &NaN{Chunk: i, Tokens: c, Pos: pos, Layer: unknown}
				}
				return nil
			})
		}
		if err != nil {
			return KLDResult{}, err
		}
		w.progress(float64(i+1) / float64(len(chunks)))
	}
	r := s.result()
	r.TypeK, r.TypeV = Types(e)
	return r, nil
}

// Choice is the likeliest token at a position.
type Choice struct {
	ID     llm.Token `json:"id"`
	Margin float32   `json:"margin"` // lead over the second likeliest token, in nats
}

// AgreeResult is the share of positions at which decoding chooses the same
// token as at f16. It also reports how sure f16 is, because any change of the
// cache may swap two tokens that are close.
type AgreeResult struct {
	Agreement  float64 `json:"agreement"`
	Stderr     float64 `json:"stderr"`
	Tokens     int     `json:"tokens"`
	First      int     `json:"first_difference"` // index of the first choice that differs; -1: none
	Margin     float32 `json:"margin"`           // median of f16's margins, in nats
	MarginLost float32 `json:"margin_lost"`      // median of f16's margins where the choice differs, in nats; 0 if it never does
	TypeK      string  `json:"type_k"`
	TypeV      string  `json:"type_v"`
}

// Choices reads the first tokens as a prompt, decodes the others one at a time,
// and returns the choice at each of the others.
func Choices(ctx context.Context, e *engine.Engine, tokens []llm.Token, prompt int, progress func(share float64)) ([]Choice, error) {
	var out []Choice
	err := numbers(ctx, e, 0, tokens, func() error { return e.EachStep(ctx, tokens, prompt, choose(tokens, prompt, &out, progress)) })
	return out, err
}

// choose returns a function that appends the choice at every position for which it
// is called.
func choose(tokens []llm.Token, prompt int, out *[]Choice, progress func(share float64)) func(int, []float32) error {
	return func(pos int, row []float32) error {
		best, next := 0, float32(math.Inf(-1))
		for i, v := range row {
			switch {
			case v != v:
				return &NaN{Tokens: tokens, Pos: pos, Layer: unknown}
			case i == 0:
			case v > row[best]:
				best, next = i, row[best]
			case v > next:
				next = v
			}
		}
		c := Choice{llm.Token(best), row[best] - next}
		if c.Margin > math.MaxFloat32 { // there is only one token, or all others have probability 0
			c.Margin = math.MaxFloat32
		}
		*out = append(*out, c)
		if progress != nil {
			progress(float64(pos+1-prompt) / float64(len(tokens)-prompt))
		}
		return nil
	}
}

// Agree compares the choices of a cache type with those of f16.
func Agree(base, got []Choice) AgreeResult {
	r := AgreeResult{First: -1, Tokens: len(base)}
	var m mean
	var all, lost []float32
	for i, b := range base {
		same := b.ID == got[i].ID
		m.hit(same)
		all = append(all, b.Margin)
		if same {
			continue
		}
		lost = append(lost, b.Margin)
		if r.First < 0 {
			r.First = i
		}
	}
	r.Agreement, r.Stderr = m.value(), m.stderr()
	r.Margin, r.MarginLost = median(all), median(lost)
	return r
}

// median sorts x and returns its median, or 0 if x is empty.
func median(x []float32) float32 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[len(x)/2]
}
