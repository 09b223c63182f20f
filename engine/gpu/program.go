package gpu

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// program is a compiled plan, with its buffers and launches.
type program struct {
	b      *Backend
	dev    Device
	plan   *graph.Plan
	layout *layout.Layout
	sizes  backend.Sizes
	out    graph.Info

	weights   map[*graph.Weight]*shared
	cache     *cache
	states    *states
	mem       graph.Memory
	scratch   Buffer
	image     *image
	counters  Buffer // counters, [layer]
	unused    Buffer // buffer that is bound to missing arguments
	buffers   []Buffer
	constants []constant
	launches  []launch
	packs     packs
	graphs    map[graphKey]Graph
	used      backend.Memory

	pools      bool // whether the plan ends in one row per sequence
	calibrates bool // whether conversations calibrate their keys
	measured   []float32
	shape      shape

	sub subBatch // current sub-batch of a batch that does not run in one piece
	top top
}

// padded rounds n up to a number of rows for a decode step. The result is a
// power of two, so that few shapes exist, or a multiple of the largest product.
func padded(n int) int {
	if n > matvecRows {
		return (n + matvecRows - 1) / matvecRows * matvecRows
	}
	b := 1
	for b < n {
		b *= 2
	}
	return b
}

// capacity returns the maximum number of rows of a value.
func (p *program) capacity() int { return padded(max(p.sizes.Rows, 1)) }
func (p *program) outputs() int  { return padded(max(p.sizes.Outputs, 1)) }

// Run executes one batch. Single rows of answers are decoded together, at most
// maxDecode at a time. Prompts are prefilled. The result of a row does not
// depend on the other rows of the batch.
func (p *program) Run(ctx context.Context, b *llm.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.check(b); err != nil {
		return err
	}
	single := 0
	for i := range b.Spans {
		if decodes(&b.Spans[i]) {
			single++
		}
	}
	switch {
	case p.pools || single == 0:
		return p.run(b, false, nil, b.Logits)
	case single == len(b.Spans) && single <= maxDecode:
		return p.run(b, true, nil, b.Logits)
	}
	p.sub.first = true
	for first := 0; first < len(b.Spans); {
		first = p.sub.collect(b, first, true, p.out.Rows)
		if err := p.run(&p.sub.batch, true, p.sub.results, b.Logits); err != nil {
			return err
		}
	}
	p.sub.collect(b, 0, false, p.out.Rows)
	return p.run(&p.sub.batch, false, p.sub.results, b.Logits)
}

// run executes rows of one kind. Result i goes to row results[i] of logits, or
// to row i if results is nil.
func (p *program) run(b *llm.Batch, decode bool, results []int32, logits []float32) error {
	if len(b.Tokens) == 0 {
		return nil
	}
	s := &p.shape
	s.rows, s.spans, s.decode = len(b.Tokens), len(b.Spans), decode
	s.outputs, s.top = len(b.Outputs), p.topOf(b)
	if _, ok := p.dev.(Recorder); ok && decode {
		s.rows = padded(s.rows)
		s.spans = s.rows
		if s.outputs > 0 {
			s.outputs = padded(s.outputs)
		}
	}
	n := p.image.fill(b, s)
	if err := p.dev.Upload(p.image.buffer, 0, p.image.data[:n]); err != nil {
		return err
	}
	s.measures = p.measures(b)
	packs := p.packs.buffer != nil && p.packs.collect(b)
	if packs {
		if err := p.dev.Upload(p.packs.buffer, 0, p.packs.data); err != nil {
			return err
		}
		if !s.measures {
			p.pack(packBefore)
		}
	}
	if err := p.start(b, s); err != nil {
		return err
	}
	if packs && decode && !s.measures {
		p.pack(packWritten)
	}
	if err := p.dev.Submit(); err != nil {
		return err
	}
	return p.download(b, results, logits)
}

// start records the launches of a batch. The launches of a decode step depend
// only on its padded sizes, so a Recorder replays them as one graph.
func (p *program) start(b *llm.Batch, s *shape) error {
	dev, ok := p.dev.(Recorder)
	if !ok || !s.decode || s.measures {
		return p.launch(b, s)
	}
	key := graphKey{s.rows, s.outputs, s.top}
	g := p.graphs[key]
	if g == nil {
		if err := dev.Begin(); err != nil {
			return err
		}
		err := p.launch(b, s)
		if err == nil {
			g, err = dev.End()
		}
		if err != nil {
			return err
		}
		p.graphs[key] = g
	}
	dev.Replay(g)
	return nil
}

// graphKey identifies the stored launches of a decode step.
type graphKey struct{ rows, outputs, top int }

// launch records every launch that has work to do. A barrier before a skipped
// launch moves to the next one.
func (p *program) launch(b *llm.Batch, s *shape) error {
	pending := false
	for i := range p.launches {
		l := &p.launches[i]
		if l.host != nil {
			if !s.measures {
				continue
			}
			if err := errors.Join(p.dev.Submit(), l.host(b)); err != nil {
				return err
			}
			continue
		}
		grid := l.size(s)
		pending = pending || l.barrier
		if grid[0] == 0 || grid[1] == 0 || grid[2] == 0 {
			continue
		}
		if pending {
			p.dev.Barrier()
			pending = false
		}
		p.dev.Launch(l.pipe, grid, l.args, l.params)
	}
	return nil
}

// download waits and copies the results to the host.
func (p *program) download(b *llm.Batch, results []int32, logits []float32) error {
	w, rows := p.out.Width, len(b.Outputs)
	if p.out.Rows == graph.BatchRows {
		rows = len(b.Tokens)
	}
	at := int64(4 * p.mem.Offset[p.plan.Output])
	switch {
	case rows == 0:
		return p.dev.Wait()
	case p.shape.top > 0:
		return p.downloadTop(&p.shape, rows, results, logits)
	case results == nil:
		return p.dev.Download(bytesOf(logits[:rows*w]), p.scratch, at)
	}
	for i, to := range results {
		dst := logits[int(to)*w : (int(to)+1)*w]
		if err := p.dev.Download(bytesOf(dst), p.scratch, at+int64(4*i*w)); err != nil {
			return err
		}
	}
	return nil
}

// check rejects batches that do not fit the program.
func (p *program) check(b *llm.Batch) error {
	n, rows := len(b.Tokens), len(b.Outputs)
	if p.out.Rows == graph.BatchRows {
		rows = n
	}
	switch {
	case n == 0 || n > p.sizes.Rows:
		return fmt.Errorf("gpu: batch of %d rows, at most %d", n, p.sizes.Rows)
	case len(b.Outputs) > p.sizes.Outputs:
		return fmt.Errorf("gpu: %d outputs, at most %d", len(b.Outputs), p.sizes.Outputs)
	case len(b.Top) > 0 && len(b.Top) != len(b.Outputs):
		return fmt.Errorf("gpu: %d numbers of logits for %d outputs", len(b.Top), len(b.Outputs))
	case len(b.Pos) != n:
		return fmt.Errorf("gpu: %d positions for %d tokens", len(b.Pos), n)
	case len(b.Logits) < rows*p.out.Width:
		return fmt.Errorf("gpu: room for %d logits, need %d", len(b.Logits), rows*p.out.Width)
	}
	return p.image.check(b)
}

// Memory returns the memory that the program uses.
func (p *program) Memory() backend.Memory { return p.used }

// Close frees the program's memory on the device.
func (p *program) Close() error {
	errs := []error{p.release()}
	for _, g := range p.graphs {
		errs = append(errs, g.Close())
	}
	p.graphs = nil
	for _, b := range p.buffers {
		errs = append(errs, b.Close())
	}
	p.buffers = nil
	return errors.Join(errs...)
}

var _ backend.Program = (*program)(nil)
