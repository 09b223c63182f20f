package engine_test

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// sharedHeads is a Llama with heads of 128 values and 7 query heads for each of 2
// KV heads.
func sharedHeads() *maker {
	const heads, kvHeads, dim = 14, 2, 128
	m := newMaker("llama", 2, map[string]any{
		"attention.head_count": heads, "attention.head_count_kv": kvHeads,
		"attention.key_length": dim, "attention.value_length": dim, "attention.layer_norm_rms_epsilon": 1e-5,
	})
	m.add("output_norm.weight", peerEmbd)
	for i := range 2 {
		m.norms(i, "attn_norm.weight", "ffn_norm.weight")
		m.layer(i, "attn_q.weight", peerEmbd, heads*dim)
		m.layer(i, "attn_k.weight", peerEmbd, kvHeads*dim)
		m.layer(i, "attn_v.weight", peerEmbd, kvHeads*dim)
		m.layer(i, "attn_output.weight", heads*dim, peerEmbd)
		m.ffn(i, peerFeed, "")
	}
	return m
}

// Seven query heads share one KV head, so turbo3 keys become q8_0. The plans of the
// loaded model and of its file report this. With the rule off, the keys stay turbo3.
func TestRaisedKeys(t *testing.T) {
	path := sharedHeads().save(t, t.TempDir(), "shared-heads")
	want, err := engine.ParseCacheTypes("turbo3", "turbo3")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		auto   layout.Switch
		active string
	}{{layout.Auto, "q8_0"}, {layout.On, "q8_0"}, {layout.Off, "turbo3"}} {
		o := engine.Options{Context: 256, Parallel: 1, Want: want, KV: layout.Settings{AutoAsymmetric: c.auto}}
		e := openPath(t, path, o)
		loaded, err := e.Plan(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		file, err := engine.PlanFile(path, "", o)
		if err != nil {
			t.Fatal(err)
		}
		raised := c.active != "turbo3"
		for what, p := range map[string]layout.Plan{"loaded": loaded, "file": file} {
			if p.Wanted.K != "turbo3" || len(p.Layers) != 2 {
				t.Errorf("%s: wanted %s, %d layers", what, p.Wanted.K, len(p.Layers))
			}
			for _, l := range p.Layers {
				if l.K.Active != c.active || l.V.Active != "turbo3" || raised != strings.Contains(l.K.Reason, "7") {
					t.Errorf("%s, switch %v, layer %d: K %s (%s), V %s", what, c.auto, l.Layer, l.K.Active, l.K.Reason, l.V.Active)
				}
			}
			if events := strings.Join(p.Events, "\n"); raised != strings.Contains(events, "q8_0") {
				t.Errorf("%s, switch %v: events %q", what, c.auto, events)
			}
		}
		for _, v := range bothPaths(t, e, peerTokens()) {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("switch %v: logit %g", c.auto, v)
			}
		}
	}
}

// The device uses exactly the bytes in the plan, for every type. turbo3 for both
// sides takes 1/5.12 of f16 if a head is a whole number of blocks.
func TestCacheBytes(t *testing.T) {
	for _, file := range []string{"llama-hd128-llama3rope", "llama-hd256-linear", "llama-hd96-yarn", "gemma3-hd256", "deepseek2-mla"} {
		sizes := make(map[string]int64)
		for _, typ := range kv.Types() {
			o := engine.Options{KV: layout.Settings{SWABypass: layout.Off}}
			e := open(t, golden.Small(t, file), 512, typ.Name, typ.Name, o)
			use, err := e.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p, err := e.Plan(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			rows := e.KV().Passing[kv.K] + e.KV().Passing[kv.V] // 0 except for types with an exact window
			for _, l := range p.Layers {
				rows += l.K.Bytes + l.V.Bytes
			}
			if n := use.Memory.Cache; n != p.Bytes || n != rows || n != e.KV().Bytes() {
				t.Errorf("%s, %s: the device holds %d bytes, the plan says %d, its layers %d", file, typ.Name, n, p.Bytes, rows)
			}
			sizes[typ.Name] = use.Memory.Cache
		}
		if whole := strings.Contains(file, "128") || strings.Contains(file, "256"); whole && sizes["f16"]*100 != sizes["turbo3"]*512 {
			t.Errorf("%s: turbo3 takes %d bytes, f16 %d: 1/%.3f, want 1/5.12", file, sizes["turbo3"], sizes["f16"], float64(sizes["f16"])/float64(sizes["turbo3"]))
		}
	}
}

// Keys beyond the range of a type's scale are counted when they are written, and logged
// once, with the layer. The logits stay finite.
func TestSaturatedKeys(t *testing.T) {
	m := sharedHeads()
	for _, w := range m.tensors {
		if w.Name != "blk.1.attn_k.weight" {
			continue
		}
		for i := 0; i < len(w.Data); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(w.Data[i:]))
			binary.LittleEndian.PutUint32(w.Data[i:], math.Float32bits(v*1e6))
		}
	}
	want, err := engine.ParseCacheTypes("turbo3", "turbo3")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	e := openPath(t, m.save(t, t.TempDir(), "large-keys"), engine.Options{
		Context: 256, Parallel: 1, Want: want, KV: layout.Settings{AutoAsymmetric: layout.Off}, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	tokens := peerTokens()
	for range 2 {
		for i, v := range logits(t, e, tokens, []int{0, len(tokens) - 1}, false) {
			if v-v != 0 {
				t.Fatalf("logit %d is %g", i, v)
			}
		}
	}
	p, err := e.Plan(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range p.Layers {
		n := int64(0)
		if i == 1 {
			n = int64(2 * 2 * len(tokens)) // one block per KV head and token, in each of two runs
		}
		if l.K.Saturated != n || l.V.Saturated != 0 {
			t.Errorf("layer %d: %d scales of K and %d of V, want %d and 0", i, l.K.Saturated, l.V.Saturated, n)
		}
	}
	if n := strings.Count(log.String(), "kv scales clamped"); n != 1 || !strings.Contains(log.String(), "layer=1") {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}
