package engine_test

import (
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// TestLayers checks what each kind of layer stores: recurrent layers have a state
// and no cells, latent layers one row as key and value, and shared layers nothing.
func TestLayers(t *testing.T) {
	type layer struct {
		cached, mla          bool
		kvHeads, dimK, dimV  int
		window, share, bytes int
	}
	full := layer{cached: true, kvHeads: 1, share: -1}
	sized := func(k, v, window, share int) layer {
		l := full
		l.dimK, l.dimV, l.window, l.share = k, v, window, share
		return l
	}
	state := func(floats int) layer { return layer{share: -1, bytes: 4 * floats} }
	latent := sized(576, 512, 0, -1)
	latent.mla = true
	two := sized(64, 32, 0, -1)
	two.kvHeads = 2
	// qwen35: a convolution over 4 tokens of 256 columns, and 4 heads of 32 by 32.
	hybrid := state(3*256 + 4*32*32)
	for file, want := range map[string][]layer{
		"qwen35":           {hybrid, hybrid, hybrid, sized(64, 64, 0, -1)},
		"lfm2":             {state(2 * 64), state(2 * 64), sized(32, 32, 0, -1), state(2 * 64), sized(32, 32, 0, -1)},
		"deepseek2-mla":    {latent, latent},
		"deepseek2-legacy": {two, two},
		"gemma4-e":         {sized(256, 256, 64, -1), sized(512, 512, 0, -1), sized(256, 256, 64, 0), sized(512, 512, 0, 1)},
		"gemma4-moe":       {sized(256, 256, 64, -1), sized(256, 256, 64, -1), sized(512, 512, 0, -1)},
		"cohere2":          {sized(32, 32, 64, -1), sized(32, 32, 64, -1), sized(32, 32, 64, -1), sized(32, 32, 0, -1), sized(32, 32, 64, -1)},
	} {
		m, err := engine.OpenModel(golden.Small(t, file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Layers(1024)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d layers, want %d", file, len(got), len(want))
		}
		for i, g := range got {
			if l := (layer{g.Cached, g.MLA, g.KVHeads, g.HeadDimK, g.HeadDimV, g.Window, g.Share, int(g.StateBytes)}); l != want[i] {
				t.Errorf("%s layer %d: %+v, want %+v", file, i, l, want[i])
			}
		}
		checkLayout(t, file, m)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// checkLayout checks that only layers with cells of their own take memory.
func checkLayout(t *testing.T, file string, m *engine.Model) {
	t.Helper()
	p, err := m.Prepare(engine.Options{Context: 1024, Parallel: 1, UBatch: 64, Want: layout.Want{K: kv.F16, V: kv.F16}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &p.Layout
	for i := range l.Layers {
		y := &l.Layers[i]
		if owns := y.K.Bytes > 0; owns != y.Owns() {
			t.Errorf("%s layer %d: %d bytes of keys", file, i, y.K.Bytes)
		}
		if own := y.V.Bytes > 0; own != (y.Owns() && !y.MLA) {
			t.Errorf("%s layer %d: %d bytes of values", file, i, y.V.Bytes)
		}
	}
}
