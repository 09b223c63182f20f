// Package eval is the quality lab. It measures how much quality a cache type costs
// on a model, on the path that users run.
//
//	p, err := eval.Perplexity(ctx, e, tokens, eval.Window{Context: 512, Chunks: 8})
//
// Perplexity hides broken attention, so the criteria are decode agreement and KL
// divergence. Perplexity is kept because others publish it.
package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// Errors about texts and windows that are too short to measure.
var (
	ErrShort  = errors.New("text is too short")
	ErrWindow = errors.New("window is too short")
)

// MinWindow is the smallest window allowed, in tokens. Predictions count in its second
// half.
const MinWindow = 4

// Window cuts a text into chunks, each a fresh context. The predictions of the
// second half of each chunk count. Source: llama.cpp's perplexity tool.
type Window struct {
	Context  int // tokens of a chunk
	Chunks   int // maximum number of chunks; 0: all
	Every    int // count one prediction in this many; 0: all
	BOS      llm.Token
	AddBOS   bool                // replace the first token of each chunk with BOS
	Progress func(share float64) // called with the share that is done, from 0 to 1; may be nil
}

// chunks divides tokens into chunks.
func (w *Window) chunks(tokens []llm.Token) ([][]llm.Token, error) {
	if w.Context < MinWindow {
		return nil, fmt.Errorf("%w: it has %d tokens; the minimum is %d", ErrWindow, w.Context, MinWindow)
	}
	n := len(tokens) / w.Context
	if w.Chunks > 0 {
		n = min(n, w.Chunks)
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: %d tokens for a window of %d", ErrShort, len(tokens), w.Context)
	}
	var out [][]llm.Token
	for i := range n {
		c := append([]llm.Token(nil), tokens[i*w.Context:(i+1)*w.Context]...)
		if w.AddBOS {
			c[0] = w.BOS
		}
		out = append(out, c)
	}
	return out, nil
}

// counted reports whether the prediction made at a position counts.
func (w *Window) counted(pos int) bool {
	return pos >= w.Context/2 && pos < w.Context-1 && (pos-w.Context/2)%max(w.Every, 1) == 0
}

func (w *Window) progress(share float64) {
	if w.Progress != nil {
		w.Progress(share)
	}
}

// logSum returns log Σ e^x, or an error if it is not finite.
func logSum(row []float32) (float64, error) {
	best := float32(math.Inf(-1))
	for _, v := range row {
		if v > best { // NaN is never larger, and makes the sum NaN
			best = v
		}
	}
	top := float64(best)
	var sum float64
	for _, v := range row {
		sum += math.Exp(float64(v) - top)
	}
	s := top + math.Log(sum)
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return 0, ErrNaN
	}
	return s, nil
}

// mean is a mean with its standard error.
type mean struct{ n, sum, squares float64 }

func (m *mean) add(x float64) { m.n, m.sum, m.squares = m.n+1, m.sum+x, m.squares+x*x }

func (m *mean) value() float64 { return m.sum / m.n }

// stderr returns the standard error of the mean.
func (m *mean) stderr() float64 {
	if m.n < 2 {
		return 0
	}
	v := m.value()
	return math.Sqrt(math.Max(m.squares/m.n-v*v, 0) / (m.n - 1))
}

// blockTokens is the number of neighbouring positions of a text that count as
// one observation in a standard error.
const blockTokens = 64

// blocked is a mean over positions. Its standard error counts a block of neighbours
// as one observation. An error of a cache affects all positions of a block, so
// these carry less information than the same number of distant positions.
type blocked struct {
	mean
	last   int
	blocks []mean
}

// add adds the value of a position in the given block. The positions of a block
// come one after another.
func (b *blocked) add(block int, x float64) {
	if len(b.blocks) == 0 || block != b.last {
		b.last, b.blocks = block, append(b.blocks, mean{})
	}
	b.mean.add(x)
	b.blocks[len(b.blocks)-1].add(x)
}

// stderr returns the standard error of the mean, from the spread of the blocks.
// With fewer than two blocks, it uses single positions.
func (b *blocked) stderr() float64 {
	n := float64(len(b.blocks))
	if n < 2 {
		return b.mean.stderr()
	}
	v, sum := b.value(), 0.0
	for i := range b.blocks {
		d := b.blocks[i].sum - v*b.blocks[i].n
		sum += d * d
	}
	return math.Sqrt(sum*n/(n-1)) / b.n
}

// PerplexityResult is a perplexity with its standard error.
type PerplexityResult struct {
	Perplexity float64   `json:"perplexity"`
	Stderr     float64   `json:"stderr"`
	Chunks     int       `json:"chunks"`
	Tokens     int       `json:"tokens"` // number of counted predictions
	Running    []float64 `json:"running"`
	TypeK      string    `json:"type_k"`
	TypeV      string    `json:"type_v"`
}

// Perplexity measures how well a model predicts a text.
func Perplexity(ctx context.Context, e *engine.Engine, tokens []llm.Token, w Window) (PerplexityResult, error) {
	return perplexity(ctx, e, tokens, w, func([]float32, float64) error { return nil })
}

// perplexity is Perplexity, and also calls the function each with the logits of
// every counted position and their logSum.
func perplexity(ctx context.Context, e *engine.Engine, tokens []llm.Token, w Window, each func([]float32, float64) error) (PerplexityResult, error) {
	r := PerplexityResult{}
	r.TypeK, r.TypeV = Types(e)
	chunks, err := w.chunks(tokens)
	if err != nil {
		return r, err
	}
	var nll mean
	for i, c := range chunks {
		err := eachLogits(ctx, e, i, c, w.counted, func(pos int, row []float32) error {
			s, err := logSum(row)
			if err != nil {
				return &NaN{Chunk: i, Tokens: c, Pos: pos, Layer: unknown}
			}
			nll.add(s - float64(row[c[pos+1]]))
			return each(row, s)
		})
		if err != nil {
			return r, err
		}
		r.Running = append(r.Running, math.Exp(nll.value()))
		w.progress(float64(i+1) / float64(len(chunks)))
	}
	r.Perplexity, r.Chunks, r.Tokens = math.Exp(nll.value()), len(chunks), int(nll.n)
	r.Stderr = r.Perplexity * nll.stderr()
	return r, nil
}

// AutoName returns the name of a cache whose types are chosen for an average
// number of bits.
func AutoName(bits float64) string { return "auto " + strconv.FormatFloat(bits, 'g', -1, 64) }

// Types returns the names of the requested cache types.
func Types(e *engine.Engine) (k, v string) {
	if bits := e.KV().Settings.AutoBits; bits > 0 {
		return AutoName(bits), AutoName(bits)
	}
	name := func(t *kv.Type) string {
		if t == nil {
			return kv.F16.Name
		}
		return t.Name
	}
	w := e.KV().Want
	return name(w.K), name(w.V)
}
