package cpu

import (
	"context"
	"fmt"
	"time"

	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
)

// Roofline contains the limits of the machine and the speed of the matrix
// kernels, for all workers together.
type Roofline struct {
	Tier    string         `json:"tier"`
	Threads int            `json:"n_threads"`
	Read    float64        `json:"read_gbs"`  // bytes read from memory, 10⁹ per second
	Peak    float64        `json:"peak_gops"` // 16-bit multiply-adds on registers, 10⁹ per second
	Types   []RooflineType `json:"types"`
}

// RooflineType holds the speeds of one weight type, for a matrix from memory times
// one vector and for a matrix in cache times 512 vectors. The shares are relative to
// the machine's limits, which are measured alternately with the type.
type RooflineType struct {
	Type        string  `json:"type"`
	MatVec      float64 `json:"matvec_gbs"`
	MatVecShare float64 `json:"matvec_share"` // share of Read
	MatMul      float64 `json:"matmul_gops"`
	MatMulShare float64 `json:"matmul_share"` // share of Peak
}

const (
	roofBytes   = 256 << 20 // much larger than caches
	roofCols    = 2048
	roofPanels  = 64 // panels of the matrix that stays in cache
	roofRows    = 512
	roofTries   = 5                      // smallest number of runs
	roofTime    = 100 * time.Millisecond // shortest total time of the runs
	roofProduct = 100_000                // rounds of the peak loop
)

// Measure measures every type with a matrix kernel, alternately with the
// machine's limits. The limits change while other programs run, and with the
// processors that a virtual machine gets. The Roofline has the best limits.
// Measuring takes some seconds.
func (b *Backend) Measure(ctx context.Context) (r Roofline, err error) {
	r.Tier, r.Threads = kernel.Active().String(), b.pool.workers
	mem, err := allocate(roofBytes)
	if err != nil {
		return r, fmt.Errorf("allocating %d bytes for the measurement: %w", roofBytes, err)
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
		out, read, peak := b.measure(t, mem)
		r.Read, r.Peak = max(r.Read, read), max(r.Peak, peak)
		r.Types = append(r.Types, out)
	}
	return r, nil
}

// measure measures one type with matrices in mem, and the machine's limits.
// Every byte of the weights has the same value, which is an ordinary scale in
// all formats.
func (b *Backend) measure(t dtype.Type, mem []byte) (out RooflineType, read, peak float64) {
	out.Type = t.String()
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
		from, to := shareOf(w.Panels(), worker, workers)
		kernel.MatVec(y, &w, acts, 0, from, to)
	}, func(worker, workers int) {
		from, to := shareOf(len(mem), worker, workers)
		kernel.Stream(mem[from:to])
	})
	out.MatVec, read = float64(w.Panels()*size)/seconds[0]/1e9, float64(len(mem))/seconds[1]/1e9
	w.Rows = roofPanels * kernel.PanelRows
	ops := make([]int64, b.pool.workers)
	seconds = b.best(func(worker, workers int) {
		from, to := shareOf(roofPanels, worker, workers)
		kernel.MatMul(y, w.Rows, &w, acts, 0, roofRows, from, to)
	}, func(worker, _ int) { ops[worker] = kernel.Products(roofProduct) })
	out.MatMul, peak = 2*roofRows*roofCols*float64(w.Rows)/seconds[0]/1e9, float64(ops[0])*float64(len(ops))/seconds[1]/1e9
	out.MatVecShare, out.MatMulShare = out.MatVec/read, out.MatMul/peak
	return out, read, peak
}

// best runs the functions alternately on every worker, and returns the seconds of
// the fastest run of each. The first run of each is not counted.
func (b *Backend) best(fs ...func(worker, workers int)) []float64 {
	n := b.pool.workers
	runs := make([][]stage, len(fs))
	for i, f := range fs {
		runs[i] = b.pool.ready([]stage{newStage(func() int { return n }, func(_, task int) { f(task, n) })})
	}
	best := make([]float64, len(fs))
	for try, begun := 0, time.Now(); try <= roofTries || time.Since(begun) < time.Duration(len(fs))*roofTime; try++ {
		for i := range runs {
			start := time.Now()
			if err := b.pool.run(context.Background(), &runs[i], false); err != nil {
				panic(err) // this memory has no file behind it
			}
			if s := time.Since(start).Seconds(); try == 1 || try > 1 && s < best[i] {
				best[i] = s
			}
		}
	}
	return best
}
