package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// ErrEmbedding is returned when an embedding model is asked to generate.
var ErrEmbedding = errors.New("this is an embedding model, which does not generate text")

// ErrWhole is returned when a model with bidirectional attention is asked to
// continue a text.
var ErrWhole = errors.New("this model predicts masked tokens of a whole text and cannot generate text; 'godwit logits' computes its logits")

// ErrEncoder is returned when an encoder-decoder model is used without an encoder
// text.
var ErrEncoder = errors.New("this is an encoder-decoder model: its encoder needs a text (godwit logits --encoder-tokens)")

// embeddingContext is the default context of models with bidirectional attention. It
// is short because all rows are in memory at once.
const embeddingContext = 2048

// Embed returns the pooled hidden state of a text: Config().Embd values, not
// normalised. It pools as the model prescribes, by default with the mean over all
// tokens. A text longer than the context is an error.
func (e *Engine) Embed(ctx context.Context, tokens []llm.Token) ([]float32, error) {
	if len(tokens) == 0 {
		return nil, errors.New("the text is empty")
	}
	limit := e.p.Context
	if e.Config().Embedding {
		limit = min(limit, e.Config().Context)
	}
	if len(tokens) > limit {
		return nil, &sched.TooLong{Prompt: len(tokens), Context: limit}
	}
	if err := e.Config().CheckTokens(tokens); err != nil {
		return nil, err
	}
	e.embed.mu.Lock()
	defer e.embed.mu.Unlock()
	if e.embed.prog == nil {
		var err error
		if e2 := e.sched.Do(ctx, func() { err = e.pool(ctx) }); e2 != nil || err != nil {
			return nil, errors.Join(e2, err)
		}
	}
	return e.embed.run(ctx, e.sched, e.Config().Pooling, tokens)
}

// embedder turns one text at a time into a row. An embedding model uses the engine's
// program; any other model gets a second program over the same weights, with its own
// cells.
type embedder struct {
	mu    sync.Mutex
	own   bool // prog is the second program
	claim *claim
	prog  backend.Program
	cache *pages.Cache
	rows  int // rows of a batch
	batch llm.Batch
}

// pool compiles the second program. It runs on the device's goroutine.
func (e *Engine) pool(ctx context.Context) error {
	o := e.p.Options
	o.Cells, o.Parallel = 0, 1
	p, claim, err := o.Memory.claim(e.model.Path, e.backend.Info(), func(free int64) (*Prepared, error) { return e.model.prepare(o, free, true) })
	if err != nil {
		return fmt.Errorf("embedding program: %w", err)
	}
	c, err := p.compile(ctx, e.backend, p.Sizes)
	if err != nil {
		o.Memory.drop(claim)
		return fmt.Errorf("embedding program: %w", err)
	}
	o.Memory.loaded(claim, c.prog)
	e.embed.own, e.embed.claim = true, claim
	e.embed.set(c.prog, c.cache, p.Sizes.Rows, p.graph.Values[p.graph.Output].Width)
	return nil
}

func (m *embedder) set(prog backend.Program, cache *pages.Cache, rows, width int) {
	m.prog, m.cache, m.rows = prog, cache, rows
	m.batch.Logits = make([]float32, width)
}

// run reads a text in chunks and combines the rows of the chunks into one.
func (m *embedder) run(ctx context.Context, s *sched.Sched, kind graph.PoolKind, tokens []llm.Token) (out []float32, err error) {
	for at := 0; at < len(tokens) && err == nil; at += m.rows {
		part := tokens[at:min(at+m.rows, len(tokens))]
		e := s.Do(ctx, func() {
			if at == 0 {
				m.cache.Drop(0)
			}
			err = m.chunk(ctx, part, at)
		})
		if err = errors.Join(e, err); err != nil {
			return nil, err
		}
		switch {
		case at == 0 && kind != graph.PoolMean:
			out = append(out, m.batch.Logits...)
		case kind == graph.PoolLast:
			copy(out, m.batch.Logits)
		case kind == graph.PoolMean:
			if out == nil {
				out = make([]float32, len(m.batch.Logits))
			}
			share := float32(len(part)) / float32(len(tokens))
			for i, v := range m.batch.Logits {
				out[i] += v * share
			}
		}
	}
	return out, err
}

// chunk runs one batch and leaves its result in m.batch.Logits.
func (m *embedder) chunk(ctx context.Context, tokens []llm.Token, at int) error {
	b := &m.batch
	if err := m.cache.Extend(0, len(tokens)); err != nil {
		return err
	}
	b.Tokens, b.Pos = tokens, b.Pos[:0]
	for i := range tokens {
		b.Pos = append(b.Pos, int32(at+i))
	}
	b.Spans = append(b.Spans[:0], llm.Span{Rows: len(tokens), Len: at + len(tokens), State: m.cache.State(0)})
	b.Outputs = append(b.Outputs[:0], int32(len(tokens)-1))
	m.cache.Fill(b)
	return m.prog.Run(ctx, b)
}

// close frees the second program, if there is one.
func (m *embedder) close() error {
	if !m.own {
		return nil
	}
	return m.prog.Close()
}
