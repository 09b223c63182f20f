// Package split runs the first layers of a model on one device and the others
// on another.
//
//	b := split.New(cpu, gpu, 12) // layers 0 to 11 on the CPU
//	p, err := b.Compile(ctx, plan, layout, sizes)
//
// Each device holds the weights and the cache of its own layers. For each token,
// one row of activations passes through the host to the second device.
package split

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// Backend is two devices, one after the other.
type Backend struct {
	head, tail backend.Backend
	layer      int
}

// New joins two devices. Layers before layer run on head. The other layers and
// the output run on tail. The result owns both devices.
func New(head, tail backend.Backend, layer int) *Backend {
	return &Backend{head, tail, layer}
}

// Info describes both devices. Memory is the sum of both, because each holds a
// part. If one of them is unknown, so is the sum.
func (b *Backend) Info() backend.Info {
	h, t := b.head.Info(), b.tail.Info()
	i := backend.Info{
		Backend: h.Backend + "+" + t.Backend, Device: h.Device + " and " + t.Device,
		Detail:  fmt.Sprintf("layers 0 to %d on %s (%s), the others on %s (%s)", b.layer-1, h.Backend, h.Detail, t.Backend, t.Detail),
		Threads: h.Threads,
	}
	if h.Memory > 0 && t.Memory > 0 {
		i.Memory = h.Memory + t.Memory
	}
	if h.Free > 0 && t.Free > 0 {
		i.Free = h.Free + t.Free
	}
	return i
}

// Compile cuts the plan and compiles both parts.
func (b *Backend) Compile(ctx context.Context, plan *graph.Plan, l *layout.Layout, s backend.Sizes) (backend.Program, error) {
	first, second, err := plan.Cut(b.layer)
	if err != nil {
		return nil, err
	}
	p := &program{layer: b.layer, plan: plan, width: first.Values[first.Output].Width}
	p.crossing = make([]float32, s.Rows*p.width)
	p.layouts = [2]layout.Layout{l.Slice(0, b.layer), l.Slice(b.layer, len(l.Layers))}
	share := float32(1)
	if s.Progress != nil {
		share = float32(b.layer) / float32(len(plan.Layers))
	}
	sizes := s
	sizes.Outputs, sizes.Progress = 0, stretch(s.Progress, 0, float64(share))
	if p.head, err = b.head.Compile(ctx, first, &p.layouts[0], sizes); err != nil {
		return nil, fmt.Errorf("layers 0 to %d: %w", b.layer-1, err)
	}
	sizes = s
	sizes.Progress = stretch(s.Progress, float64(share), 1)
	if p.tail, err = b.tail.Compile(ctx, second, &p.layouts[1], sizes); err != nil {
		return nil, errors.Join(fmt.Errorf("layers from %d on: %w", b.layer, err), p.head.Close())
	}
	return p, nil
}

// stretch maps the progress of a part to a range of the whole.
func stretch(progress func(float64) error, from, to float64) func(float64) error {
	if progress == nil {
		return nil
	}
	return func(share float64) error { return progress(from + share*(to-from)) }
}

// Close closes both devices.
func (b *Backend) Close() error { return errors.Join(b.head.Close(), b.tail.Close()) }

// program holds the two parts of a plan.
type program struct {
	head, tail backend.Program
	layouts    [2]layout.Layout
	plan       *graph.Plan
	layer      int
	width      int // number of values per row that pass from the first device to the second
	crossing   []float32
	b1, b2     llm.Batch
}

// Run runs the two parts one after the other.
func (p *program) Run(ctx context.Context, b *llm.Batch) error {
	n := len(b.Tokens) * p.width
	if n > len(p.crossing) {
		return fmt.Errorf("split: batch of %d rows, at most %d", len(b.Tokens), len(p.crossing)/p.width)
	}
	p.b1, p.b2 = *b, *b
	p.b1.Outputs, p.b1.Top, p.b1.Logits = nil, nil, p.crossing[:n]
	p.b2.Input = p.crossing[:n]
	err := p.head.Run(ctx, &p.b1)
	var odd *backend.NotNumbers
	if err != nil && !errors.As(err, &odd) {
		return err
	}
	return errors.Join(p.tail.Run(ctx, &p.b2), err)
}

// of returns the part that holds a layer.
func (p *program) of(layer int) backend.Program {
	if layer < p.layer {
		return p.head
	}
	return p.tail
}

// RowBytes returns the size of a row in the part that holds the layer.
func (p *program) RowBytes(layer int, s kv.Side, tier layout.Tier) int {
	return p.of(layer).RowBytes(layer, s, tier)
}

// ReadRow copies a row out of the part that holds the layer.
func (p *program) ReadRow(dst []byte, layer int, s kv.Side, tier layout.Tier, cell int32) error {
	return p.of(layer).ReadRow(dst, layer, s, tier, cell)
}

// WriteRow is the inverse of ReadRow.
func (p *program) WriteRow(layer int, s kv.Side, tier layout.Tier, cell int32, src []byte) error {
	return p.of(layer).WriteRow(layer, s, tier, cell, src)
}

// ReadState copies the state of a layer out of the part that holds it.
func (p *program) ReadState(dst []byte, layer int, slot int32) error {
	return p.of(layer).ReadState(dst, layer, slot)
}

// WriteState is the inverse of ReadState.
func (p *program) WriteState(layer int, slot int32, src []byte) error {
	return p.of(layer).WriteState(layer, slot, src)
}

// CopyCells copies in both parts.
func (p *program) CopyCells(group int, tier layout.Tier, dst, src int32, n int) error {
	return errors.Join(p.head.CopyCells(group, tier, dst, src, n), p.tail.CopyCells(group, tier, dst, src, n))
}

// CopyState copies in both parts.
func (p *program) CopyState(dst, src int32) error {
	return errors.Join(p.head.CopyState(dst, src), p.tail.CopyState(dst, src))
}

// Counts joins the counters of both parts.
func (p *program) Counts() []backend.Counts {
	out := p.head.Counts()
	for i, s := range p.tail.Counts() {
		if i >= p.layer && i < len(out) {
			out[i] = s
		}
	}
	return out
}

// Memory returns the sum of both parts.
func (p *program) Memory() backend.Memory {
	h, t := p.head.Memory(), p.tail.Memory()
	return backend.Memory{
		Weights: h.Weights + t.Weights, Cache: h.Cache + t.Cache,
		Scratch: h.Scratch + t.Scratch + int64(4*len(p.crossing)), State: h.State + t.State,
	}
}

// Untouched returns the bytes of both caches that have no memory yet.
func (p *program) Untouched() int64 {
	var n int64
	for _, part := range []backend.Program{p.head, p.tail} {
		if t, ok := part.(backend.Toucher); ok {
			n += t.Untouched()
		}
	}
	return n
}

// Close frees both parts.
func (p *program) Close() error { return errors.Join(p.head.Close(), p.tail.Close()) }
