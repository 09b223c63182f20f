package vision_test

import (
	"context"
	"math"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/vision"
)

// open opens the projector of a golden model.
func open(t *testing.T, m *golden.Tower) *vision.Tower {
	t.Helper()
	return openFile(t, m.Path(t, m.MMProj))
}

func openFile(t testing.TB, path string) *vision.Tower {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	tower, err := vision.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	return tower
}

// eachTile calls do for every tile of every golden run, with its prepared picture.
func eachTile(t *testing.T, m *golden.Tower, tower *vision.Tower, do func(c *golden.Chunk, tile *vision.Tile)) {
	t.Helper()
	for _, r := range m.Runs {
		tiles := make(map[int][]vision.Tile)
		for i := range r.Chunks {
			c := &r.Chunks[i]
			if c.Type != "image" {
				continue
			}
			if i == 0 || tiles[c.Image] == nil {
				p, err := tower.Prepare(m.Picture(t, c.Image), vision.Limits{Min: r.Min, Max: r.Max})
				if err != nil {
					t.Fatal(err)
				}
				tiles[c.Image] = p.Tiles
			}
			if len(tiles[c.Image]) == 0 {
				t.Fatalf("picture %d has fewer tiles than the reference", c.Image)
			}
			do(c, &tiles[c.Image][0])
			tiles[c.Image] = tiles[c.Image][1:]
		}
		for i, left := range tiles {
			if len(left) > 0 {
				t.Errorf("picture %d has %d more tiles than the reference", i, len(left))
			}
		}
	}
}

// farthest returns the largest absolute difference.
func farthest(a, b []float32) float64 {
	var most float64
	for i := range a {
		if d := math.Abs(float64(a[i]) - float64(b[i])); !(d <= most) {
			most = d
		}
	}
	return most
}

// TestPixels compares preprocessing with the reference's pixels.
func TestPixels(t *testing.T) {
	for _, m := range golden.Towers(t) {
		t.Run(m.Name, func(t *testing.T) {
			want := m.Floats(t, m.Pixels)
			eachTile(t, &m, open(t, &m), func(c *golden.Chunk, tile *vision.Tile) {
				if tile.Height != c.Shape[1] || tile.Width != c.Shape[2] || tile.Tokens != c.Count {
					t.Fatalf("picture %d: %d × %d pixels and %d tokens, want %d × %d and %d",
						c.Image, tile.Width, tile.Height, tile.Tokens, c.Shape[2], c.Shape[1], c.Count)
				}
				if d := farthest(tile.Pixels, want[c.PixelsOffset:]); d > m.PixelBound {
					t.Errorf("picture %d: pixels differ by %g, at most %g", c.Image, d, m.PixelBound)
				}
			})
		})
	}
}

// TestTower compares the rows of every golden tile with a float64 computation.
func TestTower(t *testing.T) {
	dev, err := cpu.Driver{}.Open(0, backend.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, m := range golden.Towers(t) {
		t.Run(m.Name, func(t *testing.T) {
			tower := open(t, &m)
			if tower.Width != m.Width {
				t.Fatalf("rows of %d values, want %d", tower.Width, m.Width)
			}
			e, err := vision.NewEncoder(tower, dev)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			pixels, want := m.Floats(t, m.Pixels), m.Floats(t, m.Embds)
			worst := 0.0
			eachTile(t, &m, tower, func(c *golden.Chunk, tile *vision.Tile) {
				tile.Pixels = pixels[c.PixelsOffset:][:len(tile.Pixels)]
				rows, err := e.Encode(context.Background(), tile, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(rows) != c.Count*m.Width {
					t.Fatalf("%d values, want %d rows of %d", len(rows), c.Count, m.Width)
				}
				worst = max(worst, farthest(rows, want[c.EmbdOffset:]))
			})
			t.Logf("largest difference %.2g, bound %.2g", worst, m.EmbdBound)
			if !(worst <= m.EmbdBound) {
				t.Errorf("rows differ by %g, at most %g", worst, m.EmbdBound)
			}
		})
	}
}
