package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/requant"
	"godwit/engine/testmodel"
)

// TestQuantize writes every type. The result opens, and the error of its logits is
// within the type's bound. If a matrix has a relative error of s, so have its products.
// A logit passes through 16 matrices (seven in each of two layers, the embedding and
// the output), which gives √16 times s. Weights of eight bits are multiplied by
// activations with a similar error, 0.6 %.
func TestQuantize(t *testing.T) {
	share := map[string]float64{"Q8_0": 0.0085, "Q6_K": 0.02, "Q4_K_M": 0.09, "Q4_0": 0.11, "TQ4_1S": 0.09, "TQ3_1S": 0.2}
	if len(share) != len(requant.Types()) {
		t.Fatalf("%d types, the test knows %d", len(requant.Types()), len(share))
	}
	dir := t.TempDir()
	models := map[string]string{
		"dense": llamaLike("llama", 2, nil).save(t, dir, "dense"),
		"moe":   graniteMoE().save(t, dir, "moe"),
		"wide":  golden.Path(t, "models", "quant", "quant-f32.gguf"), // rows of 256 values
		"f16":   golden.Small(t, "llama-hd64-f16"),
	}
	for name, path := range models {
		base := lastLogits(t, path)
		for _, to := range requant.Types() {
			out := filepath.Join(dir, name+"."+to+".gguf")
			var last float64
			done, err := requant.Quantize(t.Context(), path, out, strings.ToLower(to), func(s float64) error { last = s; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if last != 1 || done.Changed == 0 || done.After >= done.Before {
				t.Errorf("%s %s: %+v, progress %g", name, to, done, last)
			}
			if _, rms := distance(lastLogits(t, out), base); rms == 0 || rms > share[to]*4*spread(base) {
				t.Errorf("%s %s: RMS distance %g of logits that spread over %g", name, to, rms, spread(base))
			}
		}
	}
}

func lastLogits(t *testing.T, path string) []float32 {
	t.Helper()
	e := openPath(t, path, engine.Options{Context: 64, Threads: 1, Want: layout.Want{K: kv.F32, V: kv.F32}})
	return logits(t, e, peerTokens(), []int{0, 20, 39}, false)
}

// spread returns the root mean square.
func spread(x []float32) float64 {
	_, rms := distance(x, make([]float32, len(x)))
	return rms
}

// TestQuantizeMix converts a model with the tensors of Gemma 3 270M to Q4_K_M
// and compares the types with those in the published file.
func TestQuantizeMix(t *testing.T) {
	f, err := gguf.Open(testmodel.Gemma3(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := make(map[string]dtype.Type)
	var tensors []gguf.Tensor
	for _, x := range f.Tensors {
		want[x.Name] = x.Type
		if x.Type != dtype.F32 {
			x.Type, x.Shape = dtype.F16, []int{x.Shape[0], 2} // the choice of a type does not depend on the number of rows
		}
		x.Data = make([]byte, x.Type.RowBytes(x.Shape[0])*x.Rows())
		tensors = append(tensors, x)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf")
	file, err := os.Create(in)
	if err != nil {
		t.Fatal(err)
	}
	var meta []gguf.KV
	for k, v := range f.KV.All() {
		meta = append(meta, gguf.KV{Key: k, Value: v})
	}
	if err := errors.Join(gguf.Write(file, meta, tensors), file.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := requant.Quantize(t.Context(), in, out, "Q4_K_M", nil); err != nil {
		t.Fatal(err)
	}
	got, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	for _, x := range got.Tensors {
		if x.Type != want[x.Name] {
			t.Errorf("%s is %v, in the published file %v", x.Name, x.Type, want[x.Name])
		}
	}
	if n, _ := got.KV.Uint("general.file_type"); n != 15 {
		t.Errorf("general.file_type is %d, want 15", n)
	}
}

// TestQuantizeErrors checks that a failure leaves no file behind.
func TestQuantizeErrors(t *testing.T) {
	dir := t.TempDir()
	m := llamaLike("llama", 1, nil)
	in, out := m.save(t, dir, "in"), filepath.Join(dir, "out.gguf")
	bad := llamaLike("llama", 1, nil)
	last := &bad.tensors[len(bad.tensors)-1]
	last.Data = append([]byte{0, 0, 0xc0, 0x7f}, last.Data[4:]...)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	stop := errors.New("stop")
	for name, try := range map[string]func() error{
		"type":      func() error { _, err := requant.Quantize(t.Context(), in, out, "Q9", nil); return err },
		"over":      func() error { _, err := requant.Quantize(t.Context(), in, in, "Q8_0", nil); return err },
		"missing":   func() error { _, err := requant.Quantize(t.Context(), in+"x", out, "Q8_0", nil); return err },
		"cancelled": func() error { _, err := requant.Quantize(cancelled, in, out, "Q8_0", nil); return err },
		"stopped": func() error {
			_, err := requant.Quantize(t.Context(), in, out, "Q8_0", func(float64) error { return stop })
			return err
		},
		"not a number": func() error {
			_, err := requant.Quantize(t.Context(), bad.save(t, t.TempDir(), "bad"), out, "Q8_0", nil)
			return err
		},
		"no folder": func() error {
			_, err := requant.Quantize(t.Context(), in, filepath.Join(dir, "no", "out"), "Q8_0", nil)
			return err
		},
	} {
		err := try()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if name == "not a number" && (!errors.Is(err, requant.ErrQuantize) || !strings.Contains(err.Error(), last.Name)) {
			t.Errorf("%s: %v", name, err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Errorf("%s: files %v, error %v", name, files, err)
		}
	}
	if _, err := requant.Quantize(t.Context(), in, out, "Q8_0", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := requant.Quantize(t.Context(), out, filepath.Join(dir, "again.gguf"), "Q4_0", nil); !errors.Is(err, requant.ErrQuantize) {
		t.Errorf("a model without floats: %v", err)
	}
}
