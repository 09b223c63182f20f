package cpu

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"godwit/engine/backend"
	"godwit/engine/cpu/kernel"
	"godwit/engine/fault"
	"godwit/engine/graph"
	"godwit/engine/quant"
)

// mat is a weight in the form that kernels read: one matrix, or one per expert
// or head.
type mat struct {
	w      *graph.Weight
	packed []kernel.Packed // repacked, one per matrix
	raw    []raw           // or read in place from the file's bytes
}

// raw is one matrix in the file's bytes, for types that are not repacked.
type raw struct {
	w    *graph.Weight
	data []byte
	// seen has a bit for each panel whose scales were checked when it was first
	// read. A file that is used from its mapping is not read at load.
	seen []atomic.Uint32
}

func newRaw(w *graph.Weight, data []byte, unchecked bool) raw {
	panels := (w.Rows() + kernel.PanelRows - 1) / kernel.PanelRows
	seen := make([]atomic.Uint32, (panels+31)/32)
	if unchecked {
		for i := range seen {
			seen[i].Store(^uint32(0))
		}
	}
	return raw{w, data, seen}
}

// finite checks the scales of a panel when it is first used.
func (m *raw) finite(panel int) error {
	word, bit := &m.seen[panel/32], uint32(1)<<(panel%32)
	if word.Load()&bit != 0 {
		return nil
	}
	n, first := m.w.Type.RowBytes(m.w.Cols()), panel*kernel.PanelRows
	if err := backend.Finite(m.w, m.data[first*n:min(first+kernel.PanelRows, m.w.Rows())*n], first); err != nil {
		return err
	}
	word.Or(bit)
	return nil
}

// row decodes row r.
func (m *raw) row(dst []float32, r int) {
	n := m.w.Type.RowBytes(len(dst))
	if err := quant.Decode(m.w.Type, dst, m.data[r*n:(r+1)*n]); err != nil {
		panic("cpu: " + err.Error()) // the type was checked when the weight was added
	}
}

// quantised reports whether the matrix multiplies quantised activations.
func (m *mat) quantised() bool { return m.packed != nil && kernel.Quantized(m.w.Type) }

// panels returns the number of row panels of one matrix.
func (m *mat) panels() int { return (m.w.Rows() + kernel.PanelRows - 1) / kernel.PanelRows }

// bytes returns the size of one matrix.
func (m *mat) bytes() int { return m.w.Rows() * m.w.Type.RowBytes(m.w.Cols()) }

// An idle worker prefetches headBytes of the next weights at once, since
// kernels prefetch what follows. While it waits, it prefetches up to
// aheadBytes, with fetchBytes between two polls.
const (
	headBytes     = 8 << 10
	aheadBytes    = 128 << 10
	prefetchBytes = 512
)

// head returns the first aheadBytes from panel i on of a packed matrix, or nil
// if it is not packed.
func (m *mat) head(i int) []byte {
	if m.packed == nil {
		return nil
	}
	w := &m.packed[0]
	from := i * len(w.Data) / w.Panels()
	return w.Data[from:min(from+aheadBytes, len(w.Data))]
}

// start returns the first headBytes from panel i on.
func (m *mat) start(i int) []byte {
	b := m.head(i)
	return b[:min(headBytes, len(b))]
}

// row decodes row r of the first matrix.
func (m *mat) row(dst []float32, r int) error {
	if m.packed != nil {
		m.packed[0].Row(dst, r)
		return nil
	}
	m.raw[0].row(dst, r)
	return m.raw[0].finite(r / kernel.PanelRows)
}

// weights are the prepared constants of a plan. Vectors become float32;
// matrices are repacked into memory of their own. Programs share the prepared
// form of the same weight.
type weights struct {
	b       *Backend
	mats    map[*graph.Weight]*mat
	vectors map[*graph.Weight][]float32
	size    int64
}

// shared is a prepared matrix that several programs may hold.
type shared struct {
	mat  *mat
	mem  memory // memory in the arena; nil for a matrix that is read in place
	in   *arena
	refs int
}

// matrices returns the weights of a plan that are multiplied or looked up.
func matrices(p *graph.Plan) []*graph.Weight {
	var out []*graph.Weight
	for _, n := range p.Nodes {
		switch op := n.Op.(type) {
		case graph.Embed:
			out = append(out, op.W)
		case graph.Linear:
			out = append(out, op.W)
		case graph.HeadLinear:
			out = append(out, op.W)
		case graph.ExpertLinear:
			out = append(out, op.W)
		}
	}
	return out
}

// vectorsOf returns the weights of a plan that are plain float vectors.
func vectorsOf(p *graph.Plan) []*graph.Weight {
	var out []*graph.Weight
	for _, n := range p.Nodes {
		switch op := n.Op.(type) {
		case graph.Linear:
			out = append(out, op.Bias)
		case graph.ExpertLinear:
			out = append(out, op.Bias)
		case graph.Norm:
			out = append(out, op.W, op.B)
		case graph.Affine:
			out = append(out, op.W, op.B)
		case graph.Attend:
			out = append(out, op.SinkLogits, op.Bias.Relative)
		case graph.Route:
			out = append(out, op.Bias)
		case graph.ExpertScale:
			out = append(out, op.W)
		case graph.ShortConv:
			out = append(out, op.W, op.Bias)
		case graph.Scan:
			out = append(out, op.A)
		}
	}
	return out
}

// prepare makes the weights of a plan ready.
func (b *Backend) prepare(ctx context.Context, p *graph.Plan, s backend.Sizes) (w *weights, err error) {
	err = fault.Guard(func() error { // vectors are read here; workers read the matrices
		w, err = b.weigh(ctx, p, s)
		return err
	})
	return w, err
}

func (b *Backend) weigh(ctx context.Context, p *graph.Plan, s backend.Sizes) (*weights, error) {
	w := &weights{b: b, mats: make(map[*graph.Weight]*mat), vectors: make(map[*graph.Weight][]float32)}
	for _, v := range vectorsOf(p) {
		if v == nil || w.vectors[v] != nil {
			continue
		}
		f, err := vector(v)
		if errors.Is(err, backend.ErrDamaged) && b.options.Unchecked {
			err = nil
		}
		if err != nil {
			return nil, errors.Join(err, w.release())
		}
		w.vectors[v] = f
		w.size += int64(4 * len(f))
	}
	list := matrices(p)
	in, err := b.newArena(list)
	if err != nil {
		return nil, errors.Join(err, w.release())
	}
	in.refs++ // keep the arena until all matrices are added
	var total, done int64
	for _, m := range list {
		total += int64(len(m.Data))
	}
	for _, m := range list {
		done += int64(len(m.Data))
		if w.mats[m] != nil {
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = w.add(m, in, s.Done)
		}
		if err == nil && s.Progress != nil {
			err = s.Progress(float64(done) / float64(total))
		}
		if err != nil {
			return nil, errors.Join(err, w.release(), in.drop())
		}
	}
	return w, in.drop()
}

// vector converts a weight that is used as plain floats to float32.
func vector(v *graph.Weight) ([]float32, error) {
	f := make([]float32, v.Elems())
	if err := quant.Decode(v.Type, f, v.Data); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	return f, backend.Finite(v, v.Data, 0)
}

// add prepares one matrix, or shares it with another program.
func (w *weights) add(g *graph.Weight, in *arena, done func([]byte)) error {
	s := w.b.shared[g]
	if s == nil {
		s = &shared{mat: &mat{w: g}, in: in}
		if err := w.b.repack(s, done); err != nil {
			return err
		}
		w.b.shared[g] = s
	}
	s.refs++
	w.mats[g] = s.mat
	w.size += int64(len(s.mem))
	return nil
}

// packed returns the size of the packed form of a weight. It returns false if
// the weight is read in place.
func packed(g *graph.Weight, o *backend.Options) (int, bool) {
	size, ok := kernel.PackedSize(g.Type, g.Rows(), g.Cols())
	return size, ok && !o.NoRepack
}

// repack makes the packed form of a matrix, or the raw form if the type has no
// packed form or repacking is off. done is called with the source's bytes as
// they are copied.
func (b *Backend) repack(s *shared, done func([]byte)) error {
	g := s.mat.w
	rows, cols, n := g.Rows(), g.Cols(), g.Mats()
	src := rows * g.Type.RowBytes(cols)
	if len(g.Data) != n*src {
		return fmt.Errorf("%s: %d bytes for %v of %v", g.Name, len(g.Data), g.Type, g.Shape)
	}
	size, ok := packed(g, &b.options)
	if !ok {
		if !quant.Weights(g.Type) {
			return fmt.Errorf("%w: %s: %v on cpu", backend.ErrUnsupported, g.Name, g.Type)
		}
		for i := range n {
			s.mat.raw = append(s.mat.raw, newRaw(g, g.Data[i*src:(i+1)*src], b.options.Unchecked))
		}
		return nil
	}
	mem := s.in.next(n * size)
	s.mem = mem
	if b.options.Lock {
		if err := mem.lock(); err != nil {
			return errors.Join(fmt.Errorf("%w: %s cannot be locked in memory: %w", backend.ErrMemory, g.Name, err), s.in.drop())
		}
	}
	for i := range n {
		s.mat.packed = append(s.mat.packed, kernel.Packed{Type: g.Type, Rows: rows, Cols: cols, Data: mem[i*size : (i+1)*size]})
	}
	const chunk = 32 // panels
	per := (s.mat.panels() + chunk - 1) / chunk
	stages := b.pool.ready([]stage{newStage(
		func() int { return n * per },
		func(_, task int) {
			i, p := task/per, task%per*chunk
			from := g.Data[i*src : (i+1)*src]
			to := min(p+chunk, s.mat.panels())
			if !kernel.Pack(s.mat.packed[i].Data, g.Type, rows, cols, from, p, to) && !b.options.Unchecked {
				first := p * kernel.PanelRows
				b.pool.fail(backend.Finite(g, from[first*(src/rows):], i*rows+first))
			}
			if done != nil {
				done(from[p*kernel.PanelRows*(src/rows) : min(to*kernel.PanelRows, rows)*(src/rows)])
			}
		})})
	if err := b.pool.run(context.Background(), &stages, false); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", g.Name, err), s.in.drop())
	}
	return nil
}

// floats returns a vector weight. It returns nil for nil.
func (w *weights) floats(g *graph.Weight) []float32 { return w.vectors[g] }

// quantised returns the values that a matrix reads in quantised form, with the
// length of the vectors it reads.
func (w *weights) quantised(p *graph.Plan) map[graph.Value]int {
	out := make(map[graph.Value]int)
	for _, n := range p.Nodes {
		var g *graph.Weight
		switch op := n.Op.(type) {
		case graph.Linear:
			g = op.W
		case graph.HeadLinear:
			g = op.W
		case graph.ExpertLinear:
			g = op.W
		default:
			continue
		}
		if w.mats[g].quantised() {
			out[n.In[0]] = g.Cols()
		}
	}
	return out
}

// widestRaw returns the longest row of a matrix that is read in place.
func (w *weights) widestRaw() int {
	n := 0
	for _, m := range w.mats {
		if m.raw != nil {
			n = max(n, m.w.Cols())
		}
	}
	return n
}

// release drops the matrices.
func (w *weights) release() error {
	var errs []error
	for g := range w.mats {
		s := w.b.shared[g]
		if s.refs--; s.refs == 0 {
			delete(w.b.shared, g)
			if s.mem != nil {
				errs = append(errs, s.in.drop())
			}
		}
	}
	w.mats = nil
	return errors.Join(errs...)
}
