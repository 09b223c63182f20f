package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"

	"godwit/engine/backend"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

var _ backend.Program = (*program)(nil)

// program executes a plan on the worker pool.
type program struct {
	backend *Backend
	plan    *graph.Plan
	layout  *layout.Layout
	sizes   backend.Sizes
	input   int // number of values per row that the batch supplies

	mem     graph.Memory
	scratch []float32
	weights *weights
	cache   *cache
	states  *states
	stages  []stage
	acts    []*kernel.Acts // quantised form of each value; nil if no matrix reads one
	ropes   []*ropeTable
	used    backend.Memory
	rowBufs [][]float32 // a decoded matrix row, one per worker
	gathers []gather    // one per worker
	glus    [][]float32 // results of the two matrices of a Glu, one per worker

	// The current batch.
	b     *llm.Batch
	span  []int32     // span of each row
	skips []attnCount // indexed by layer and worker

	strays strays
	self   *selfMemory // memory of SelfAttend; nil if the plan has none
}

// ropeTable holds the sine and cosine of every row of a batch for one set of
// frequencies: [row][cos..., sin...].
type ropeTable struct {
	freqs []float32
	axes  []uint8 // coordinate that each pair uses; nil for the position
	scale float32
	rows  []float32
}

// row returns row r of value v. The plan's output is in the batch's memory.
func (p *program) row(v graph.Value, r int) []float32 {
	w := p.plan.Values[v].Width
	if v == p.plan.Output {
		return p.b.Logits[r*w : (r+1)*w : (r+1)*w]
	}
	off := p.mem.Offset[v] + r*w
	return p.scratch[off : off+w : off+w]
}

// all returns the whole of value v for n rows.
func (p *program) all(v graph.Value, n int) []float32 {
	if v == p.plan.Output {
		return p.b.Logits[:n*p.plan.Values[v].Width]
	}
	off := p.mem.Offset[v]
	return p.scratch[off : off+n*p.plan.Values[v].Width]
}

// rows returns the number of rows of a value in this batch.
func (p *program) rows(s graph.RowSet) int {
	if s == graph.OutputRows {
		return len(p.b.Outputs)
	}
	return len(p.b.Tokens)
}

// Run executes the plan on one batch.
func (p *program) Run(ctx context.Context, b *llm.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.check(b); err != nil {
		return err
	}
	p.b = b
	for s, span := range b.Spans {
		for r := range span.Rows {
			p.span[span.First+r] = int32(s)
		}
	}
	err := p.backend.pool.run(ctx, &p.stages, len(b.Tokens) == 1)
	p.b = nil
	if strays := p.strays.end(); err == nil {
		err = strays
	}
	return err
}

// check rejects batches that do not fit the program. Such a batch is a bug of the
// caller, so the error text is terse.
func (p *program) check(b *llm.Batch) error {
	n := len(b.Tokens)
	switch {
	case n == 0 || n > p.sizes.Rows:
		return fmt.Errorf("cpu: batch of %d rows, at most %d", n, p.sizes.Rows)
	case len(b.Outputs) > p.sizes.Outputs:
		return fmt.Errorf("cpu: %d outputs, at most %d", len(b.Outputs), p.sizes.Outputs)
	case len(b.Pos) != n:
		return fmt.Errorf("cpu: %d positions for %d tokens", len(b.Pos), n)
	}
	if err := checkPictures(b); err != nil {
		return err
	}
	out := p.plan.Values[p.plan.Output]
	want := len(b.Outputs) * out.Width
	if out.Rows == graph.BatchRows {
		want = n * out.Width
	}
	if len(b.Logits) < want {
		return fmt.Errorf("cpu: room for %d logits, need %d", len(b.Logits), want)
	}
	if len(b.Input) < n*p.input {
		return fmt.Errorf("cpu: %d values of input, want %d", len(b.Input), n*p.input)
	}
	return nil
}

// fillRopes computes the angles of one row.
func (p *program) fillRopes(row int) {
	for _, t := range p.ropes {
		pos := float64(p.b.Pos[row])
		n := len(t.freqs)
		cs := t.rows[row*2*n : (row+1)*2*n]
		for i, f := range t.freqs {
			if t.axes != nil && p.b.Coords != nil {
				pos = float64(p.b.Coords[row][t.axes[i]])
			}
			sin, cos := math.Sincos(pos * float64(f))
			cs[i] = float32(cos) * t.scale
			cs[n+i] = float32(sin) * t.scale
		}
	}
}

// Progress returns the share of the running batch that is done. It may be
// called from any goroutine.
func (p *program) Progress() float64 {
	return float64(p.backend.pool.at.Load()) / float64(len(p.stages))
}

// Counts returns the counters of each layer.
func (p *program) Counts() []backend.Counts {
	out := make([]backend.Counts, len(p.layout.Layers))
	for i := range out {
		for w := range p.backend.pool.workers {
			c := &p.counts(i)[w]
			out[i].Considered += c.considered.Load()
			out[i].Skipped += c.skipped.Load()
			out[i].Broken += c.broken.Load()
			for s := range c.saturated {
				out[i].Saturated[s] += c.saturated[s].Load()
			}
		}
	}
	return out
}

// counts returns the counters of a layer, one per worker.
func (p *program) counts(layer int) []attnCount {
	n := p.backend.pool.workers
	return p.skips[layer*n : (layer+1)*n]
}

// Memory returns the memory that the program occupies.
func (p *program) Memory() backend.Memory { return p.used }

// Untouched returns the size of the part of the cache that has no physical
// memory yet.
func (p *program) Untouched() int64 { return p.cache.mem.untouched() }

// Close frees the program's memory.
func (p *program) Close() error {
	return errors.Join(p.weights.release(), p.cache.close())
}
