package gpu

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/fault"
	"godwit/engine/graph"
	"godwit/engine/quant"
)

// shared is a weight on the device that several programs may use.
type shared struct {
	buffer Buffer
	refs   int
}

// uses calls f for every weight of a plan. vector is set if kernels read the
// weight as float32, whatever its type in the file.
func uses(p *graph.Plan, f func(w *graph.Weight, vector bool)) {
	all := func(vector bool, list ...*graph.Weight) {
		for _, w := range list {
			if w != nil {
				f(w, vector)
			}
		}
	}
	for _, n := range p.Nodes {
		switch op := n.Op.(type) {
		case graph.Embed:
			all(false, op.W)
		case graph.Linear:
			all(false, op.W)
			all(true, op.Bias)
		case graph.HeadLinear:
			all(false, op.W)
		case graph.ExpertLinear:
			all(false, op.W)
			all(true, op.Bias)
		case graph.Norm:
			all(true, op.W, op.B)
		case graph.Affine:
			all(true, op.W, op.B)
		case graph.Attend:
			all(true, op.SinkLogits)
		case graph.Route:
			all(true, op.Bias)
		case graph.ExpertScale:
			all(true, op.W)
		case graph.ShortConv:
			all(true, op.W, op.Bias)
		}
	}
}

// load uploads the weights of a plan.
func (p *program) load(ctx context.Context) error {
	var total, done int64
	uses(p.plan, func(w *graph.Weight, _ bool) { total += int64(len(w.Data)) })
	p.weights = make(map[*graph.Weight]*shared)
	var err error
	uses(p.plan, func(w *graph.Weight, vector bool) {
		done += int64(len(w.Data))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || p.weights[w] != nil {
			return
		}
		if err = p.hold(w, vector); err == nil && p.sizes.Progress != nil {
			err = p.sizes.Progress(float64(done) / float64(total))
		}
	})
	return err
}

// hold uploads a weight, or shares the copy that another program has uploaded.
func (p *program) hold(w *graph.Weight, vector bool) error {
	s := p.b.shared[w]
	if s == nil {
		var data []byte
		err := fault.Guard(func() (err error) {
			if data, err = deviceForm(w, vector); err == nil && !p.b.unchecked {
				err = backend.Finite(w, w.Data, 0)
			}
			return err
		})
		if err != nil {
			return err
		}
		buf, err := p.dev.Alloc(int64(len(data)), data, w.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		s = &shared{buffer: buf}
		p.b.shared[w] = s
	}
	s.refs++
	p.weights[w] = s
	p.used.Weights += s.buffer.Size()
	return nil
}

// deviceForm returns the bytes of a weight in the form that kernels read: as in
// the file, or as float32.
func deviceForm(w *graph.Weight, vector bool) ([]byte, error) {
	if want := w.Elems() / w.Cols() * w.Type.RowBytes(w.Cols()); len(w.Data) != want {
		return nil, fmt.Errorf("%s: %d bytes for %v of %v", w.Name, len(w.Data), w.Type, w.Shape)
	}
	if !vector || w.Type == dtype.F32 {
		return w.Data, nil
	}
	f := make([]float32, w.Elems())
	if err := quant.Decode(w.Type, f, w.Data); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	return bytesOf(f), nil
}

// release drops the weights.
func (p *program) release() error {
	var errs []error
	for w, s := range p.weights {
		if s.refs--; s.refs == 0 {
			delete(p.b.shared, w)
			errs = append(errs, s.buffer.Close())
		}
	}
	p.weights = nil
	return errors.Join(errs...)
}
