package vision_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/vision"
)

// TestCancel checks that work on a large picture ends soon after its context ends,
// and that the encoder still works afterwards.
func TestCancel(t *testing.T) {
	dev, err := cpu.Driver{}.Open(0, backend.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	tw := tower(t, "qwen2vl")
	e, err := vision.NewEncoder(tw, dev)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p, err := tw.Prepare(files(t)["png"], vision.Limits{Min: 1024, Max: 2048})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := e.Encode(ctx, &p.Tiles[0], nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d tokens ended after %v with %v", p.Tiles[0].Tokens, time.Since(start), err)
	}
	took := time.Since(start)
	last := 0.0
	rows, err := e.Encode(context.Background(), &p.Tiles[0], func(share float64) {
		if share < last || share > 1 {
			t.Errorf("progress goes from %g to %g", last, share)
		}
		last = share
	})
	if err != nil || len(rows) != p.Tiles[0].Tokens*tw.Width {
		t.Fatalf("after a cancelled run: %d values, %v", len(rows), err)
	}
	if whole := time.Since(start) - took; took > max(whole/2, time.Second) {
		t.Errorf("cancelled after %v, the whole takes %v", took, whole)
	}
}
