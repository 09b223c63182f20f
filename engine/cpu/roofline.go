package cpu

import (
	"context"
	"fmt"
	"time"

	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
)

// Roofline is what the machine can do and what the matrix kernels make of it,
// all workers together.
type Roofline struct {
	Tier    string         `json:"tier"`
	Threads int            `json:"n_threads"`
	Read    float64        `json:"read_gbs"`  // bytes read from memory, 10⁹ a second
	Peak    float64        `json:"peak_gops"` // products and sums of 16 bits on registers, 10⁹ a second
	Types   []RooflineType `json:"types"`
}

// RooflineType is one weight type: a matrix from memory times one vector, and
// a matrix in cache times 512.
type RooflineType struct {
	Type        string  `json:"type"`
	MatVec      float64 `json:"matvec_gbs"`
	MatVecShare float64 `json:"matvec_share"` // of Read
	MatMul      float64 `json:"matmul_gops"`
	MatMulShare float64 `json:"matmul_share"` // of Peak
}

const (
	roofBytes   = 256 << 20 // far more than caches hold
	roofCols    = 2048
	roofPanels  = 64 // of the matrix in cache
	roofRows    = 512
	roofTries   = 5                      // at least,
	roofTime    = 100 * time.Millisecond // and for so long
	roofProduct = 100_000                // rounds
)

// Measure measures the machine and every type that has a matrix kernel. The
// machine's limits are measured again beside each type, and the best counts: on a
// machine that does other things a type would be lucky where they were not. It
// takes some seconds.
func (b *Backend) Measure(ctx context.Context) (r Roofline, err error) {
	r.Tier, r.Threads = kernel.Active().String(), b.pool.workers
	mem, err := allocate(roofBytes)
	if err != nil {
		return r, fmt.Errorf("%d bytes to measure with: %w", roofBytes, err)
	}
	defer func() {
		if e := mem.free(); err == nil {
			err = e
		}
	}()
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	for _, t := range kernel.Types() {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		read, peak := b.limits(mem)
		r.Read, r.Peak = max(r.Read, read), max(r.Peak, peak)
		r.Types = append(r.Types, b.measure(t, mem))
	}
	for i := range r.Types {
		t := &r.Types[i]
		t.MatVecShare, t.MatMulShare = t.MatVec/r.Read, t.MatMul/r.Peak
	}
	return r, nil
}

// limits measures the machine.
func (b *Backend) limits(mem []byte) (read, peak float64) {
	seconds := b.best(func(worker, workers int) {
		from, to := part(len(mem), worker, workers)
		kernel.Stream(mem[from:to])
	})
	ops := make([]int64, b.pool.workers)
	products := b.best(func(worker, _ int) { ops[worker] = kernel.Products(roofProduct) })
	return float64(len(mem)) / seconds / 1e9, float64(ops[0]) * float64(len(ops)) / products / 1e9
}

// measure measures one type with matrices in mem. Every byte of the weights is
// the same, one that makes an ordinary scale of every format.
func (b *Backend) measure(t dtype.Type, mem []byte) RooflineType {
	out := RooflineType{Type: t.String()}
	for i := range mem {
		mem[i] = 0x35
	}
	size, _ := kernel.PackedSize(t, kernel.PanelRows, roofCols)
	w := kernel.Packed{Type: t, Rows: len(mem) / size * kernel.PanelRows, Cols: roofCols, Data: mem}
	acts := kernel.NewActs(roofRows, roofCols)
	x := make([]float32, roofCols)
	for i := range x {
		x[i] = float32(i%64) - 31.5
	}
	for i := range roofRows {
		acts.Quantize(i, x)
	}
	y := make([]float32, max(w.Rows, roofRows*roofPanels*kernel.PanelRows))
	seconds := b.best(func(worker, workers int) {
		from, to := part(w.Panels(), worker, workers)
		kernel.MatVec(y, &w, acts, 0, from, to)
	})
	out.MatVec = float64(w.Panels()*size) / seconds / 1e9
	w.Rows = roofPanels * kernel.PanelRows
	seconds = b.best(func(worker, workers int) {
		from, to := part(roofPanels, worker, workers)
		kernel.MatMul(y, w.Rows, &w, acts, 0, roofRows, from, to)
	})
	out.MatMul = 2 * roofRows * roofCols * float64(w.Rows) / seconds / 1e9
	return out
}

// best runs f on every worker, once untimed, and returns the seconds of the
// fastest run.
func (b *Backend) best(f func(worker, workers int)) float64 {
	n := b.pool.workers
	stages := b.pool.ready([]stage{newStage(func() int { return n }, func(_, task int) { f(task, n) })})
	run := func() {
		if err := b.pool.run(&stages); err != nil {
			panic(err) // no file is behind this memory
		}
	}
	run()
	best, begun := time.Hour, time.Now()
	for i := 0; i < roofTries || time.Since(begun) < roofTime; i++ {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	return best.Seconds()
}
