package engine_test

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/model"
)

// renamed returns the parts of a model with another architecture name.
func renamed(t *testing.T, m *golden.Model, name string) modelFile {
	t.Helper()
	f, err := gguf.Open(m.Save(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	parts := parseModel(t, f)
	for i := range parts.kv {
		e := &parts.kv[i]
		if key, ok := strings.CutPrefix(e.Key, f.Arch()+"."); ok {
			e.Key = name + "." + key
		}
		if e.Key == "general.architecture" {
			e.Value = name
		}
	}
	return parts
}

// TestNearest opens every golden model under an unregistered architecture name. The
// error names a registered architecture that reads tensors of the same names. If a
// tensor is removed, the error names it as missing.
func TestNearest(t *testing.T) {
	var list []golden.Model
	seen := make(map[string]bool)
	for _, m := range golden.Archs(t) {
		if seen[m.Arch] || slices.Contains(unregistered, m.Arch) || m.Mode == "mtp" {
			continue
		}
		seen[m.Arch] = true
		list = append(list, m)
	}
	if !testAll() {
		rng := rand.New(rand.NewPCG(testSeed(t), 0))
		rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		slices.SortStableFunc(list, func(a, b golden.Model) int {
			return cmp.Compare(strings.Index(b.Arch, "qwen3moe"), strings.Index(a.Arch, "qwen3moe"))
		})
		list = list[:30]
	}
	for _, m := range list {
		t.Run(m.Arch, func(t *testing.T) {
			parts := renamed(t, &m, m.Arch+"-next")
			_, err := parts.open(t)
			if !errors.Is(err, model.ErrArch) || !strings.Contains(err.Error(), m.Arch+`-next"; its nearest relative is `) || !strings.Contains(err.Error(), "which reads tensors of the same names") {
				t.Fatal(err)
			}
			if m.Arch != "qwen3moe" {
				return
			}
			parts.tensors = slices.DeleteFunc(parts.tensors, func(t gguf.Tensor) bool { return strings.HasSuffix(t.Name, "ffn_gate_inp.weight") })
			if _, err = parts.open(t); !strings.Contains(err.Error(), "is qwen3moe, which misses blk.N.ffn_gate_inp.weight; supported") {
				t.Error(err)
			}
		})
	}
}

// TestNearestBlocks checks that a file that claims the maximum number of blocks is
// rejected immediately.
func TestNearestBlocks(t *testing.T) {
	m := newMaker("perceptron", 1, map[string]any{"block_count": 4096})
	start := time.Now()
	if _, err := m.parts(t).open(t); !errors.Is(err, model.ErrArch) {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Error(took)
	}
}
