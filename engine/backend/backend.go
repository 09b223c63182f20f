// Package backend is the interface between a recorded plan and the device that
// runs it. A Driver finds devices, and a Backend compiles plans for one of
// them. A Program replays a plan batch by batch and owns the memory of the
// cache.
package backend

import (
	"context"
	"errors"
	"fmt"
	"math"

	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/quant"
)

// ErrUnsupported is wrapped by Compile's error if a device lacks an op or a
// type. The text names the op, the type and the device.
var ErrUnsupported = errors.New("not supported on this device")

// ErrNotBuilt is returned by drivers that are not part of this build.
var ErrNotBuilt = errors.New("not part of this build")

// ErrMemory is wrapped if a device has too little memory. The text has the
// bytes needed, the bytes free and, if known, the largest size possible.
var ErrMemory = errors.New("not enough memory")

// ErrDamaged is wrapped by errors about weights that are NaN or infinite.
var ErrDamaged = errors.New("damaged weights")

// Finite returns an error if the scale of a block, or a value of a float type,
// is NaN or infinite. The error names the weight and the row. data holds w's
// rows from row first on.
func Finite(w *graph.Weight, data []byte, first int) error {
	i := quant.NotFinite(w.Type, data)
	if i < 0 {
		return nil
	}
	row := first + i/max(w.Cols()/w.Type.Elems(), 1)
	return fmt.Errorf("%w: %s (%v) has NaN or infinity in row %d of %d; fetch the file again", ErrDamaged, w.Name, w.Type, row, w.Elems()/w.Cols())
}

// NotNumbers is the error of Run if queries, keys, values or the choice of
// experts of some rows were NaN or infinite. The other rows are correct.
type NotNumbers struct {
	Layer int    // first layer with NaN or infinite values
	What  string // "queries", "keys", "values" or "router"
	Rows  []int  // rows of the batch that are NaN or infinite, ascending
}

func (e *NotNumbers) Error() string {
	return fmt.Sprintf("the %s of layer %d are NaN or infinite: weights before it are damaged, or values overflow", e.What, e.Layer)
}

// Info describes a device.
type Info struct {
	Backend string `json:"backend"`           // cpu, metal, cuda, hip or emu
	Device  string `json:"device"`            // the system's name for the device
	Detail  string `json:"detail"`            // instruction tier, driver version or similar
	Memory  int64  `json:"memory"`            // bytes usable for weights and cache; 0 if unknown
	Free    int64  `json:"free"`              // bytes free now; 0 if unknown
	Threads int    `json:"threads,omitempty"` // worker threads; 0 for devices other than a CPU
}

// Driver opens the devices of one kind.
type Driver interface {
	Name() string
	Devices() ([]Info, error)
	Open(device int, o Options) (Backend, error)
}

// Options are choices made when a device is opened. The zero value works.
type Options struct {
	Threads   int  // CPU workers; 0 for one per physical core
	NoRepack  bool // run from the mapped file instead of a repacked copy
	Lock      bool // keep the weights in memory
	Unchecked bool // accept weights that are NaN or infinite
	FloatAttn bool // float arithmetic in attention for every cache type
}

// Sizes are the limits of a Program.
type Sizes struct {
	Rows    int   // rows per batch
	Outputs int   // output rows per batch
	Pages   []int // number of pages of each window group of the layout
	Slots   int   // number of slots for recurrent state
	SparseV float32
	// Progress is called while weights are prepared, with the share that is
	// done, from 0 to 1. It may be nil. An error ends Compile.
	Progress func(share float64) error
	// Done is called from several goroutines, with bytes of weights that the
	// program has copied and will not read again. It may be nil.
	Done func(data []byte)
}

// Holder is a Driver whose devices support only some cache layouts.
type Holder interface {
	// Holds returns ErrUnsupported if Compile would return it because of the
	// cache. It does not open a device.
	Holds(l *layout.Layout) error
}

// Weigher is a Driver that can compute how much memory the weights of a plan
// take on its devices. Weights that are read in place from a mapped file take
// none, because the system can drop those pages at any time and read them
// again.
type Weigher interface {
	WeightBytes(p *graph.Plan, o Options) int64
}

// Toucher is a Program whose cache gets its memory from the system page by
// page.
type Toucher interface {
	// Untouched returns the bytes of the cache that are reserved but were never
	// written, so the system still counts them as free. Any goroutine may call it
	// until Close is called.
	Untouched() int64
}

// Progresser is a Program that reports the progress of a long batch.
type Progresser interface {
	// Progress returns the share of the running batch that is done, from 0 to
	// 1. Any goroutine may call it.
	Progress() float64
}

// Backend compiles plans for one device.
type Backend interface {
	Info() Info
	// Compile prepares a plan: weights, scratch memory, and the cache that the
	// layout describes. It is slow, and ctx cancels it.
	Compile(ctx context.Context, p *graph.Plan, c *layout.Layout, s Sizes) (Program, error)
	Close() error
}

// Program replays a plan. It is not safe for concurrent use.
type Program interface {
	pages.Rows
	pages.StateRows
	pages.Copier
	// Run executes one batch and fills b.Logits, even if it returns
	// [NotNumbers].
	Run(ctx context.Context, b *llm.Batch) error
	// Counts returns the counters of each layer since the program was compiled.
	Counts() []Counts
	// Memory returns the memory that the program holds.
	Memory() Memory
	Close() error
}

// Counts are the counters of one layer: cells that Sparse V considered, cells that
// it skipped, and (Broken) keys or values of a KV head that contained NaN or
// infinity when they were written. Attention reads these as zeros. Saturated counts
// blocks by side that were written with the largest f16 in place of an infinite
// scale, or with 0 in place of NaN.
type Counts struct {
	Considered, Skipped, Broken int64
	Saturated                   [2]int64
}

// Memory is the memory of a program, in bytes.
type Memory struct{ Weights, Cache, Scratch, State int64 }

// Total returns the sum, at most the largest int64.
func (m Memory) Total() int64 {
	var n int64
	for _, x := range []int64{m.Weights, m.Cache, m.Scratch, m.State} {
		if n += x; n < 0 {
			return math.MaxInt64
		}
	}
	return n
}

// Bytes prints as a human-readable size.
type Bytes int64

func (b Bytes) String() string {
	switch {
	case b >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(b)/(1<<30))
	case b >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(b)/(1<<20))
	case b >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(b)/(1<<10))
	}
	return fmt.Sprintf("%d B", int64(b))
}
