package quant_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/quant"
)

// goldenQuant is one entry of manifest.json's quant list.
type goldenQuant struct {
	Name, Type, File string
	RowsFile         string `json:"rows_file"`
	Rows             []struct {
		Tensor string
		First  int `json:"first_row"`
		N      int `json:"n_rows"`
		Len    int `json:"row_len"`
		Offset int
	}
}

func readManifest(t testing.TB) []goldenQuant {
	t.Helper()
	var m struct{ Quant []goldenQuant }
	if err := json.Unmarshal(golden.Read(t, "models", "manifest.json"), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Quant) == 0 {
		t.Fatal("manifest.json lists no quant files")
	}
	return m.Quant
}

// Rows decode to the same bits as in ggml.
func TestGoldenRows(t *testing.T) {
	for _, m := range readManifest(t) {
		t.Run(m.Name, func(t *testing.T) {
			typ, ok := dtype.Parse(m.Type)
			if !ok {
				t.Fatalf("dtype does not know %q", m.Type)
			}
			file := openGGUF(t, m)
			want := floats(golden.Read(t, "models", m.RowsFile))
			for _, r := range m.Rows {
				x, ok := file.Tensor(r.Tensor)
				if !ok || x.Type != typ {
					t.Fatalf("%s: %v", r.Tensor, x)
				}
				size := typ.RowBytes(r.Len)
				got := make([]float32, r.N*r.Len)
				if err := quant.Decode(typ, got, x.Data[r.First*size:(r.First+r.N)*size]); err != nil {
					t.Fatal(err)
				}
				sameBits(t, r.Tensor, got, want[r.Offset:r.Offset+len(got)])
			}
		})
	}
}

// sameBits compares bits, so that -0 and infinities count. NaNs are equal.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if g, w := got[i], want[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Fatalf("%s: value %d of %d is %g (%08x), want %g (%08x)",
				what, i, len(want), g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

func floats(b []byte) []float32 {
	f := make([]float32, len(b)/4)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return f
}

// openGGUF opens the model of a manifest entry until the test ends.
func openGGUF(t testing.TB, m goldenQuant) *gguf.File {
	t.Helper()
	f, err := gguf.Open(golden.Path(t, "models", m.File))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}
