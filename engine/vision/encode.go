package vision

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// Encoder runs a tower on a device. It is safe for concurrent use. It encodes
// one tile at a time.
type Encoder struct {
	tower *Tower
	dev   backend.Backend
	plan  *graph.Plan

	mu   sync.Mutex
	prog backend.Program // nil before the first tile
	room int             // number of rows that prog has room for
}

// NewEncoder returns an encoder. It compiles the program for the first tile, and
// again for a tile with more patches.
func NewEncoder(t *Tower, dev backend.Backend) (*Encoder, error) {
	plan, err := t.plan()
	if err != nil {
		return nil, fmt.Errorf("%w (%s): %w", ErrProjector, t.Family, err)
	}
	if w := plan.Values[plan.Output].Width; w != t.Width {
		return nil, fmt.Errorf("%w (%s): rows of %d values, want %d", ErrProjector, t.Family, w, t.Width)
	}
	return &Encoder{tower: t, dev: dev, plan: plan}, nil
}

// Encode returns the rows of a tile, [Tokens, Width]. If the device can report
// progress, progress is called a few times per second. progress may be nil.
// Encode stops when ctx ends.
func (e *Encoder) Encode(ctx context.Context, tile *Tile, progress func(share float64)) ([]float32, error) {
	t := e.tower
	b := &llm.Batch{}
	t.rows(tile, b)
	n := len(b.Tokens)
	b.Spans = []llm.Span{{Rows: n, Len: n}}
	b.Logits = make([]float32, len(b.Outputs)*t.Width)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.fit(ctx, n); err != nil {
		return nil, err
	}
	if err := e.run(ctx, b, progress); err != nil {
		return nil, err
	}
	if !finite32(b.Logits) {
		return nil, fmt.Errorf("%w: the tower computes NaN or infinity; its file is damaged, or this device overflows", ErrProjector)
	}
	return t.breaks(tile, b.Logits), nil
}

// run runs a batch and reports progress.
func (e *Encoder) run(ctx context.Context, b *llm.Batch, progress func(share float64)) error {
	p, ok := e.prog.(backend.Progresser)
	if !ok || progress == nil {
		return e.prog.Run(ctx, b)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				progress(p.Progress())
			case <-done:
				return
			}
		}
	}()
	err := e.prog.Run(ctx, b)
	close(done)
	<-ended
	return err
}

// breaks inserts an embedding after each line of the grid except the last.
func (t *Tower) breaks(tile *Tile, rows []float32) []float32 {
	if t.newline == nil {
		return rows
	}
	out := make([]float32, 0, tile.Tokens*t.Width)
	n := tile.GridW * t.Width
	for r := range tile.GridH {
		if r > 0 {
			out = append(out, t.newline...)
		}
		out = append(out, rows[r*n:(r+1)*n]...)
	}
	return out
}

// fit compiles a program for n rows.
func (e *Encoder) fit(ctx context.Context, n int) error {
	if e.prog != nil && n <= e.room {
		return nil
	}
	if err := e.drop(); err != nil {
		return err
	}
	room := n
	if e.tower.Dynamic {
		room = 1 << bits.Len(uint(n-1))
	}
	p, err := e.dev.Compile(ctx, e.plan, &layout.Layout{}, backend.Sizes{Rows: room, Outputs: room})
	if err != nil {
		return err
	}
	e.prog, e.room = p, room
	return nil
}

func (e *Encoder) drop() error {
	if e.prog == nil {
		return nil
	}
	p := e.prog
	e.prog = nil
	return p.Close()
}

// Memory returns the memory that the encoder uses.
func (e *Encoder) Memory() backend.Memory {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prog == nil {
		return backend.Memory{}
	}
	return e.prog.Memory()
}

// Close frees the program but leaves the device open.
func (e *Encoder) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drop()
}
