package vision_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/quant"
	"godwit/engine/vision"
)

// recoded writes a projector with its matrices converted to another type, if their
// rows consist of whole blocks. It returns the path and the number of converted
// matrices.
func recoded(t *testing.T, path string, to dtype.Type) (string, int) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var kvs []gguf.KV
	for k, v := range f.KV.All() {
		kvs = append(kvs, gguf.KV{Key: k, Value: v})
	}
	n := 0
	var list []gguf.Tensor
	for _, x := range f.Tensors {
		matrix := strings.HasSuffix(x.Name, ".weight") && (len(x.Shape) == 2 || len(x.Shape) == 4) && !strings.Contains(x.Name, "position")
		if matrix && x.Shape[0]%to.Elems() == 0 {
			values := make([]float32, x.Rows()*x.Shape[0])
			if err := quant.Decode(x.Type, values, x.Data); err != nil {
				t.Fatal(err)
			}
			x.Data = make([]byte, to.RowBytes(len(values)))
			x.Type = to
			if err := quant.Encode(to, x.Data, values, nil); err != nil {
				t.Fatal(err)
			}
			n++
		}
		list = append(list, x)
	}
	out := filepath.Join(t.TempDir(), "recoded.gguf")
	w, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := gguf.Write(w, kvs, list); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out, n
}

// TestQuantisedTowers runs every tower with other weight types. The error bound is
// the type's error relative to the largest weight, times the number of matrices
// that a row passes through.
func TestQuantisedTowers(t *testing.T) {
	dev, err := cpu.Driver{}.Open(0, backend.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for ty, bound := range map[dtype.Type]float64{dtype.F16: 0.002, dtype.BF16: 0.015, dtype.Q8_0: 0.03, dtype.Q4_K: 0.3} {
		ran := 0
		for _, m := range golden.Towers(t) {
			path, n := recoded(t, m.Path(t, m.MMProj), ty)
			ran += n
			tower := openFile(t, path)
			e, err := vision.NewEncoder(tower, dev)
			if err != nil {
				t.Fatal(err)
			}
			var sum, size float64
			eachTile(t, &m, tower, func(c *golden.Chunk, tile *vision.Tile) {
				rows, err := e.Encode(context.Background(), tile, nil)
				if err != nil {
					t.Fatalf("%s in %v: %v", m.Name, ty, err)
				}
				want := m.Floats(t, m.Embds)[c.EmbdOffset:]
				for i, v := range rows {
					sum += math.Pow(float64(v-want[i]), 2)
					size += math.Pow(float64(want[i]), 2)
				}
			})
			if d := math.Sqrt(sum / size); !(d <= bound) {
				t.Errorf("%s in %v: rows differ by %.3g of their size, at most %g", m.Name, ty, d, bound)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if ran == 0 {
			t.Errorf("no matrix was written in %v", ty)
		}
	}
}
