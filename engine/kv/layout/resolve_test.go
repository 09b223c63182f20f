package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"godwit/engine/kv"
)

// TestHeadSizes checks the table in spec kv-formats.md section 8 with its
// notes, and the map in section 6: requested type, head size, resulting types
// of K and V, and padded size.
func TestHeadSizes(t *testing.T) {
	type row struct {
		name   string
		k, v   string
		padded int
	}
	same := func(name, active string, padded int) row { return row{name, active, active, padded} }
	table := map[int][]row{
		40: {
			same("turbo3", "turbo3", 128), same("oa-turbo2", "turbo2", 128), same("q4_0", "f16", 40),
			same("tq3_0", "f16", 40), same("tbq3", "f16", 40), same("amx3", "f16", 40), same("q8_0-rot", "f16", 40),
		},
		48: {same("turbo4", "turbo4", 128), same("q8_0", "f16", 48), same("tbq4", "f16", 48)},
		64: {
			same("turbo3", "turbo3", 128), same("oa-turbo3", "turbo3", 128), same("tq3_0", "tq3_0", 64),
			same("q4_0", "q4_0", 64),
			{"tbq3", "tbqp3_3", "tbq3_2", 64},
			{"tbq4", "tbqp4_3", "tbq4_2", 64},
			{"tbqp3", "tbqp3_3", "tbq3_2", 64},
			{"tbqp4", "tbqp4_3", "tbq4_2", 64},
			{"amx3", "tbqp3_3", "tbq3_2", 64},
			{"amxv3", "tbqp3_3", "tbq3_2", 64},
			{"tbq3_3", "tbqp3_3", "tbq3_2", 64},
			{"tbq3_0", "tbqp3_3", "tbq3_2", 64},
			{"tbqp4_0", "tbqp4_3", "tbq4_2", 64},
			same("tbq3_2", "tbq3_2", 64),
			{"tbqp3_2", "tbqp3_2", "tbq3_2", 64},
			same("tbq3_1", "q8_0", 64), same("tbq4_4", "q8_0", 64),
		},
		80: {
			same("turbo2", "turbo2", 128), same("oa-turbo3", "turbo3", 128), same("tq3_0", "f16", 80),
			same("q5_1", "f16", 80), same("tbq4", "f16", 80), same("tbqp3", "f16", 80), same("amx3", "f16", 80),
		},
		96: {
			same("turbo3", "turbo3", 128), same("tq3_0", "tq3_0", 96), same("tbq3", "q8_0", 96), same("tbqp4", "q8_0", 96),
			same("amx3", "q8_0", 96), same("iq4_nl", "iq4_nl", 96), same("q4_0-rot", "q4_0-rot", 96),
		},
		112: {same("turbo3", "turbo3", 128), same("q8_0", "f16", 112), same("tbq3", "f16", 112)},
		128: {
			same("turbo3", "turbo3", 128), same("oa-turbo3", "oa-turbo3", 128), same("tbq3", "tbq3_1", 128),
			{"tbqp3", "tbqp3_1", "tbq3_1", 128},
			{"amx3", "amx3", "amxv3", 128},
			{"amxv3", "tbq3_1", "amxv3", 128},
			{"amx3_1", "amx3", "amxv3", 128},
			same("tbq4_0", "tbq4_1", 128), same("tbq4_2", "q8_0", 128),
		},
		192: {same("turbo3", "turbo3", 256), same("oa-turbo3", "turbo3", 256), same("q4_1", "q4_1", 192), same("tbq3", "q8_0", 192)},
		256: {
			same("turbo3", "turbo3", 256), same("oa-turbo2", "oa-turbo2", 256), same("tbq4", "tbq4_0", 256),
			{"tbqp4", "tbqp4_0", "tbq4_0", 256},
			same("amx3", "tbq3_0", 256), same("tbq3_1", "q8_0", 256),
		},
		512: {
			same("turbo3", "turbo3", 512), same("oa-turbo3", "oa-turbo3", 512), same("tq3_0", "tq3_0", 512),
			same("tbq3", "tbq3_0", 512),
			{"tbqp3", "tbqp3_0", "tbq3_0", 512},
			same("amx3", "tbq3_0", 512),
		},
		576: {
			same("turbo3", "turbo3", 640), same("oa-turbo3", "turbo3", 640), same("tq3_0", "tq3_0", 576),
			same("tbq3", "tbq3_4", 576),
			{"tbqp4", "tbqp4_4", "tbq4_4", 576},
			same("amx3", "tbq3_4", 576),
		},
	}
	for dim, rows := range table {
		for _, r := range rows {
			zero := 0
			l := resolve(t, want(t, r.name, r.name), model(1, 2, 2, dim), Settings{Cells: 64, Policy: &zero})
			y := &l.Layers[0]
			if y.K.Active.Name != r.k || y.V.Active.Name != r.v || y.K.Padded != r.padded {
				t.Errorf("head %d %s: %s/%s padded %d, want %s/%s padded %d",
					dim, r.name, y.K.Active.Name, y.V.Active.Name, y.K.Padded, r.k, r.v, r.padded)
			}
			checkSide(t, &y.K)
			checkSide(t, &y.V)
		}
	}
}

// checkSide checks that a change of type has a reason and that segments cover the
// head.
func checkSide(t *testing.T, s *Side) {
	t.Helper()
	if (s.Active == s.Wanted && s.Padded == s.HeadDim) != (s.Reason == "") && s.Active.Name != s.Wanted.Name {
		t.Errorf("head %d %s: active %s with reason %q", s.HeadDim, s.Wanted.Name, s.Active.Name, s.Reason)
	}
	checkSegments(t, s)
}

// checkSegments checks that segments cover the head, the rotated domain and the
// bytes.
func checkSegments(t *testing.T, s *Side) {
	t.Helper()
	dim, lane, at := 0, 0, 0
	for _, g := range s.Segments {
		if g.First != dim || g.Lane != lane || g.At != at || len(g.Form.Join) > 0 {
			t.Fatalf("%s at %d: segments %+v", s.Active.Name, s.HeadDim, s.Segments)
		}
		dim += g.Dim
		lane += g.Blocks * g.Form.Elems
		at += g.Blocks * g.Form.Bytes
	}
	if dim != s.HeadDim || lane != s.Padded || at != s.HeadBytes {
		t.Fatalf("%s at %d: %d values, %d padded, %d bytes in segments", s.Active.Name, s.HeadDim, dim, lane, at)
	}
}

func TestStrict(t *testing.T) {
	for _, c := range []struct {
		k, v string
		dim  int
		err  string
	}{
		{"f16", "q8_0", 64, ""},
		{"turbo3", "turbo3", 64, ""}, // padded, not changed
		{"tbq3", "tbq3", 128, ""},    // the form that the shorthand stands for
		{"amx3", "amx3", 128, ""},
		{"q8_0", "f16", 80, "K q8_0 -> f16"},
		{"f16", "tbqp3", 128, "V tbqp3 -> tbq3_1"},
		{"oa-turbo3", "f16", 64, "K oa-turbo3 -> turbo3"},
		{"f16", "amx3", 96, "V amx3 -> q8_0"},
		{"tbq3", "turbo3", 512, "V turbo3 -> f16"},
	} {
		_, err := Resolve(want(t, c.k, c.v), model(2, 2, 2, c.dim), Settings{Cells: 64, Strict: true})
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s/%s at %d: %v", c.k, c.v, c.dim, err)
		case c.err != "" && (!errors.Is(err, ErrStrict) || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s/%s at %d: %v, want %s", c.k, c.v, c.dim, err, c.err)
		}
	}
	// The boundary policy counts as a change if it starts automatically, and as the
	// user's choice if it was requested.
	seven := 7
	w := want(t, "f16", "turbo2")
	if _, err := Resolve(w, model(8, 2, 2, 128), Settings{Cells: 64, Strict: true}); !errors.Is(err, ErrStrict) {
		t.Errorf("automatic policy under strict: %v", err)
	}
	if _, err := Resolve(w, model(8, 2, 2, 128), Settings{Cells: 64, Strict: true, Policy: &seven}); err != nil {
		t.Errorf("asked policy under strict: %v", err)
	}
}

// Latent attention: one row of 576, V a view of its first 512 values.
func TestLatent(t *testing.T) {
	layers := model(9, 16, 1, 576)
	for i := range layers {
		layers[i].HeadDimV, layers[i].MLA = 512, true
	}
	for _, c := range []struct {
		k, v, active string
		row, viewed  int // bytes of a K row, padded values of the view
	}{
		{"f16", "f16", "f16", 1152, 512},
		{"tbq3", "tbq3", "tbq3_4", 324, 512},
		{"tbqp3", "tbqp3", "tbqp3_4", 328, 512},
		{"tbqp4", "f16", "tbqp4_4", 392, 512},
		{"turbo3", "f16", "turbo3", 250, 512},
		{"turbo3", "turbo3", "q8_0", 612, 512}, // 16 query heads on one KV head
		{"q4_0-rot", "turbo2", "q4_0-rot", 324, 512},
		{"amx3", "amx3", "tbq3_4", 324, 512},
	} {
		l := resolve(t, want(t, c.k, c.v), layers, Settings{Cells: 64})
		y := &l.Layers[4]
		if y.K.Active.Name != c.active || y.K.RowBytes != c.row {
			t.Errorf("%s/%s: K %s in %d bytes, want %s in %d", c.k, c.v, y.K.Active.Name, y.K.RowBytes, c.active, c.row)
		}
		if said := strings.Contains(y.K.Reason, "rotary values"); said != y.K.Active.Rules.PacksRotary {
			t.Errorf("%s/%s: reason %q", c.k, c.v, y.K.Reason)
		}
		if !y.V.View || y.V.Active != y.K.Active || y.V.RowBytes != 0 || y.V.Bytes != 0 || y.V.Padded != c.viewed {
			t.Errorf("%s/%s: V %+v", c.k, c.v, y.V)
		}
		if got := l.BytesPerToken(); got != 9*c.row {
			t.Errorf("%s/%s: %d bytes a token, want %d", c.k, c.v, got, 9*c.row)
		}
	}
}

func TestCascade(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     LayerInfo
		k, v   int
		failed bool
	}{
		{"key length", LayerInfo{Signals: Signals{KeyLength: 128, Embd: 1024, Heads: 16}}, 128, 128, false},
		{"mla", LayerInfo{Signals: Signals{KeyLengthMLA: 192, ValueLength: 128}}, 192, 128, false},
		{"window first", LayerInfo{Window: 64, Signals: Signals{KeyLength: 512, KeyLengthSWA: 256}}, 256, 256, false},
		{"no window", LayerInfo{Signals: Signals{KeyLength: 512, KeyLengthSWA: 256}}, 512, 512, false},
		{"value", LayerInfo{Signals: Signals{ValueLength: 64}}, 64, 64, false},
		{"computed", LayerInfo{Signals: Signals{Embd: 576, Heads: 9}}, 64, 64, false},
		{"odd value", LayerInfo{Signals: Signals{KeyLength: 128, ValueLength: 100}}, 128, 128, false},
		{"indivisible", LayerInfo{Signals: Signals{Embd: 577, Heads: 9}}, 0, 0, true},
		{"weights agree", LayerInfo{HeadDimK: 64, HeadDimV: 64, Signals: Signals{KeyLength: 64, Embd: 1024, Heads: 8}}, 64, 64, false},
		{"weights differ", LayerInfo{HeadDimK: 64, HeadDimV: 64, Signals: Signals{KeyLength: 128}}, 0, 0, true},
		{"nothing", LayerInfo{}, 0, 0, true},
		{"weights only", LayerInfo{HeadDimK: 64, HeadDimV: 32}, 64, 32, false},
	} {
		c.in.Cached, c.in.Share, c.in.Heads, c.in.KVHeads = true, -1, 2, 2
		l, err := Resolve(Want{}, []LayerInfo{c.in}, Settings{Cells: 64})
		if c.failed {
			if err == nil {
				t.Errorf("%s: no error", c.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if y := &l.Layers[0]; y.K.HeadDim != c.k || y.V.HeadDim != c.v {
			t.Errorf("%s: %d/%d, want %d/%d", c.name, y.K.HeadDim, y.V.HeadDim, c.k, c.v)
		}
	}
}

// Every combination of types and shapes can be loaded, and every layout counts its
// own bytes.
func TestResolveAlways(t *testing.T) {
	var all []*kv.Type
	for _, f := range slices.Concat(kv.Types(), kv.Forms()) {
		if f.Retired == "" && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	for _, dim := range []int{1, 32, 40, 48, 64, 80, 96, 112, 128, 192, 256, 320, 512, 576, 1024} {
		for _, k := range all {
			for _, v := range all {
				l := resolve(t, Want{k, v}, model(2, 6, 3, dim), Settings{Cells: 100})
				y := &l.Layers[1]
				if !y.K.Active.Float && y.K.Padded < dim || y.K.RowBytes != 3*y.K.HeadBytes || y.K.Bytes != int64(128*y.K.RowBytes) {
					t.Fatalf("%s at %d: %+v", k.Name, dim, y.K)
				}
				checkSegments(t, &y.K)
				checkSegments(t, &y.V)
			}
		}
	}
}

func TestHostileLayers(t *testing.T) {
	base := func() []LayerInfo { return model(3, 4, 2, 64) }
	for i, change := range []func(l []LayerInfo, s *Settings){
		func(l []LayerInfo, _ *Settings) { l[1].HeadDimK = -1 },
		func(l []LayerInfo, _ *Settings) { l[1].HeadDimV = 1 << 40 },
		func(l []LayerInfo, _ *Settings) { l[1].KVHeads = 0 },
		func(l []LayerInfo, _ *Settings) { l[1].KVHeads = 1 << 30 },
		func(l []LayerInfo, _ *Settings) { l[1].Window = -5 },
		func(l []LayerInfo, _ *Settings) { l[1].Share = 1 },
		func(l []LayerInfo, _ *Settings) { l[1].Share = 2 },
		func(l []LayerInfo, _ *Settings) { l[0].Cached, l[1].Share = false, 0 },
		func(l []LayerInfo, _ *Settings) { l[1].Share, l[1].HeadDimK = 0, 128 },
		func(l []LayerInfo, _ *Settings) { l[1].MLA, l[1].HeadDimV = true, 65 },
		func(_ []LayerInfo, s *Settings) { s.Cells = -1 },
		func(_ []LayerInfo, s *Settings) { s.Cells = 1 << 40 },
		func(_ []LayerInfo, s *Settings) { s.Seqs = 1 << 40 },
	} {
		l, s := base(), Settings{Cells: 64}
		change(l, &s)
		if _, err := Resolve(Want{kv.F32, kv.F32}, l, s); err == nil {
			t.Errorf("case %d: accepted", i)
		}
	}
	huge := model(100, maxKVHeads, maxKVHeads, kv.MaxHeadDim)
	if _, err := Resolve(Want{kv.F32, kv.F32}, huge, Settings{Cells: MaxCells}); err == nil {
		t.Error("more bytes than can be counted: accepted")
	}
	l := base()
	l[1].Window = 1 << 62
	if out := resolve(t, Want{}, l, Settings{Cells: 64}); len(out.Groups) != 1 {
		t.Errorf("a window beyond any context makes a group of its own: %+v", out.Groups)
	}
}

// A layer that reads another layer's cache uses that layer's layout and takes no
// bytes.
func TestShare(t *testing.T) {
	layers := model(4, 4, 2, 64)
	layers[0].Window = 100
	layers[3].Share = 0
	layers[3].Window = 100
	l := resolve(t, want(t, "q8_0", "turbo3"), layers, Settings{Cells: 4096, UBatch: 64})
	y := &l.Layers[3]
	if y.K.Active != kv.Q8_0 || y.K.Bytes != 0 || y.K.RowBytes != 0 || y.Group != l.Layers[0].Group || !strings.Contains(y.K.Reason, "layer 0") {
		t.Errorf("%+v", y)
	}
	if got, want := l.Groups[0].Pages, (100+64+63)/64+2; got != want {
		t.Errorf("window pool of %d pages, want %d", got, want)
	}
}

func TestLargestContext(t *testing.T) {
	layers := model(4, 4, 2, 128)
	layers[1].Window = 256
	for _, w := range []Want{{}, want(t, "turbo3", "turbo3"), want(t, "q8_0", "tbq4")} {
		l := resolve(t, w, layers, Settings{Cells: 64, Seqs: 2})
		for _, budget := range []int64{0, 1 << 10, 1 << 20, 123456789, 1 << 33} {
			n := l.LargestContext(budget)
			if n%kv.PageCells != 0 {
				t.Errorf("context %d", n)
			}
			bytes := func(cells int) int64 {
				s := l.Settings
				s.Cells = cells
				m := resolve(t, w, layers, s)
				return m.Bytes()
			}
			if n > 0 && bytes(n) > budget || bytes(n+kv.PageCells) <= budget {
				t.Errorf("%v budget %d: context %d takes %d, one page more %d", w, budget, n, bytes(n), bytes(n+kv.PageCells))
			}
		}
	}
}

// turbo3 takes 1/5.12 of f16 if head sizes are multiples of 128.
func TestRatio(t *testing.T) {
	for _, dim := range []int{128, 256} {
		l := resolve(t, want(t, "turbo3", "turbo3"), model(12, 4, 2, dim), Settings{Cells: 4096})
		p := NewPlan(&l, "m", 4096)
		if p.Bytes*512 != p.BytesF16*100 {
			t.Errorf("head %d: %d of %d bytes", dim, p.Bytes, p.BytesF16)
		}
	}
}

func ExampleEvent() {
	k, _ := kv.Parse("turbo3")
	l, _ := Resolve(Want{K: k, V: k}, []LayerInfo{{Cached: true, Heads: 14, KVHeads: 2, HeadDimK: 64, HeadDimV: 64, Share: -1}}, Settings{Cells: 64})
	for _, e := range l.Events {
		fmt.Println(e)
	}
	// Output:
	// kv: K turbo3 -> q8_0 (7 query heads for each KV head, 14 of 2; opt out: TURBO_AUTO_ASYMMETRIC=0) layer=0
	// kv: V turbo3 (head 64 padded to 128) layer=0
	// kv: caches of one kind: 1 kv_k=q8_0 kv_v=turbo3
}
