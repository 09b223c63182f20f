package layout

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"godwit/engine/kv"
)

// model is n layers of one shape.
func model(n, heads, kvHeads, dim int) []LayerInfo {
	layers := make([]LayerInfo, n)
	for i := range layers {
		layers[i] = LayerInfo{Layer: i, Cached: true, Heads: heads, KVHeads: kvHeads, HeadDimK: dim, HeadDimV: dim, Share: -1}
	}
	return layers
}

func mustParse(t testing.TB, name string) *kv.Type {
	t.Helper()
	typ, err := kv.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func want(t testing.TB, k, v string) Want {
	t.Helper()
	return Want{mustParse(t, k), mustParse(t, v)}
}

func resolve(t testing.TB, w Want, layers []LayerInfo, s Settings) Layout {
	t.Helper()
	l, err := Resolve(w, layers, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// expectedPolicy is the specification's table, written independently from its
// text.
func expectedPolicy(mode, il, n int, k, v string) (string, string) {
	turbo := func(s string) bool { return strings.HasPrefix(s, "turbo") }
	if n < 8 {
		return k, v
	}
	switch {
	case mode == 1 && turbo(k) && (il < 4 || il >= n-4):
		return "q8_0", "q8_0"
	case mode == 2 && turbo(k) && il >= n-8:
		return "q8_0", "q8_0"
	case mode == 5 && turbo(v):
		if il < 2 || il >= n-2 {
			return k, "turbo4"
		}
		return k, "turbo2"
	case mode == 6 && turbo(v):
		if il >= n-8 {
			return k, "turbo4"
		}
		return k, "turbo2"
	case mode == 7 && turbo(v):
		if il < 2 || il >= n-2 {
			return k, "q8_0"
		}
		return k, "turbo2"
	}
	return k, v
}

func TestLayerPolicies(t *testing.T) {
	names := []string{"turbo2", "turbo3", "turbo4", "q8_0", "f16"}
	for _, n := range []int{4, 7, 8, 12, 28, 40} {
		for mode := -1; mode <= 8; mode++ { // -1: automatic
			for _, k := range names {
				for _, v := range names {
					s := Settings{Cells: 64}
					effective := mode
					if mode >= 0 {
						s.Policy = &mode
					} else if effective = 0; v == "turbo2" {
						effective = 7
					}
					l := resolve(t, want(t, k, v), model(n, 8, 8, 128), s)
					for il := range n {
						wk, wv := expectedPolicy(effective, il, n, k, v)
						y := &l.Layers[il]
						if y.K.Active.Name != wk || y.V.Active.Name != wv {
							t.Fatalf("n %d mode %d %s/%s layer %d: %s/%s, want %s/%s",
								n, mode, k, v, il, y.K.Active.Name, y.V.Active.Name, wk, wv)
						}
						if (y.V.Reason == "") != (v == wv) {
							t.Fatalf("n %d mode %d %s/%s layer %d: V %s with reason %q", n, mode, k, v, il, wv, y.V.Reason)
						}
					}
				}
			}
		}
	}
}

// Hybrid models: the boundary counts caches or layers, depending on the setting.
// Layers that share a cache do not count.
func TestBoundaryCounts(t *testing.T) {
	layers := model(36, 8, 8, 128)
	for i := range layers {
		layers[i].Cached = i%4 == 3
	}
	layers[35].Share = 3
	q8 := func(s Settings) (at []int) {
		s.Cells = 64
		l := resolve(t, want(t, "f16", "turbo2"), layers, s)
		for i, y := range l.Layers {
			if y.Owns() && y.V.Active == kv.Q8_0 {
				at = append(at, i)
			}
		}
		return at
	}
	if got := fmt.Sprint(q8(Settings{})); got != "[3 7 27 31]" {
		t.Errorf("by cache: %s", got)
	}
	if got := fmt.Sprint(q8(Settings{BoundaryBy: "layer"})); got != "[]" {
		t.Errorf("by layer: %s", got)
	}
	if _, err := Resolve(Want{}, layers, Settings{BoundaryBy: "row"}); err == nil {
		t.Error("boundary by row accepted")
	}
}

func TestRaiseK(t *testing.T) {
	for _, c := range []struct {
		k, v        string
		heads, kv   int
		set         Switch
		wantK       string
		wantChanged bool
	}{
		{"turbo3", "turbo3", 8, 8, Auto, "turbo3", false},
		{"turbo3", "turbo3", 40, 8, Auto, "turbo3", false},
		{"turbo3", "turbo3", 48, 8, Auto, "q8_0", true},
		{"turbo3", "turbo3", 47, 8, Auto, "turbo3", false},
		{"turbo4", "turbo4", 14, 2, Auto, "q8_0", true},
		{"turbo2", "turbo2", 64, 8, On, "q8_0", true},
		{"turbo3", "turbo3", 64, 8, Off, "turbo3", false},
		{"turbo4", "turbo3", 64, 8, Auto, "turbo4", false},
		{"oa-turbo3", "oa-turbo3", 64, 8, Auto, "oa-turbo3", false},
		{"tbq3", "tbq3", 64, 8, Auto, "tbq3_1", false},
		{"tq3_0", "tq3_0", 64, 8, Auto, "tq3_0", false},
	} {
		zero := 0
		l := resolve(t, want(t, c.k, c.v), model(4, c.heads, c.kv, 128), Settings{Cells: 64, AutoAsymmetric: c.set, Policy: &zero})
		y := &l.Layers[0]
		if y.K.Active.Name != c.wantK {
			t.Errorf("%s/%s %d:%d: K %s, want %s", c.k, c.v, c.heads, c.kv, y.K.Active.Name, c.wantK)
		}
		logged := false
		for _, e := range l.Events {
			logged = logged || strings.Contains(e.Text, "K "+c.k+" -> q8_0") && strings.Contains(e.Text, "opt out")
		}
		if logged != c.wantChanged {
			t.Errorf("%s/%s %d:%d: events %v", c.k, c.v, c.heads, c.kv, l.Events)
		}
		_, err := Resolve(want(t, c.k, c.v), model(4, c.heads, c.kv, 128), Settings{Cells: 64, AutoAsymmetric: c.set, Policy: &zero, Strict: true})
		if errors.Is(err, ErrStrict) != c.wantChanged {
			t.Errorf("%s/%s %d:%d strict: %v", c.k, c.v, c.heads, c.kv, err)
		}
	}
	// The largest ratio among the layers that own a cache decides.
	layers := model(3, 8, 8, 128)
	layers[2].Heads, layers[2].KVHeads = 14, 2
	if l := resolve(t, want(t, "turbo3", "turbo3"), layers, Settings{Cells: 64}); l.Layers[0].K.Active != kv.Q8_0 {
		t.Errorf("mixed ratios: K %s", l.Layers[0].K.Active.Name)
	}
	layers[2].Cached = false
	if l := resolve(t, want(t, "turbo3", "turbo3"), layers, Settings{Cells: 64}); l.Layers[0].K.Active != kv.Turbo3 {
		t.Errorf("ratio of a layer without cache: K %s", l.Layers[0].K.Active.Name)
	}
}

// After K was raised, modes 1 and 2 have no effect, as in the fork.
func TestRaisedKStopsModes1And2(t *testing.T) {
	for _, mode := range []int{1, 2} {
		l := resolve(t, want(t, "turbo3", "turbo3"), model(12, 14, 2, 128), Settings{Cells: 64, Policy: &mode})
		for i := range l.Layers {
			if y := &l.Layers[i]; y.K.Active != kv.Q8_0 || y.V.Active != kv.Turbo3 {
				t.Errorf("mode %d layer %d: %s/%s", mode, i, y.K.Active.Name, y.V.Active.Name)
			}
		}
	}
}

func TestWindowBypass(t *testing.T) {
	for _, c := range []struct {
		k, v  string
		set   Switch
		wantK string // in layers with a window
		wantV string
	}{
		{"tbq3", "tbq3", Auto, "f16", "f16"},
		{"amx3", "q8_0", Auto, "f16", "f16"},
		{"tbq3", "f32", Auto, "f16", "f32"},
		{"tbq3", "tbq3", Off, "tbq3_0", "tbq3_0"},
		{"turbo3", "turbo3", Auto, "turbo3", "turbo3"},
		{"turbo3", "turbo3", On, "f16", "f16"},
		{"tq3_0", "oa-turbo3", Auto, "tq3_0", "oa-turbo3"},
	} {
		layers := model(4, 4, 4, 512)
		for i := range 2 {
			layers[i].Window, layers[i].HeadDimK, layers[i].HeadDimV = 64, 256, 256
		}
		l := resolve(t, want(t, c.k, c.v), layers, Settings{Cells: 64, SWABypass: c.set})
		if y := &l.Layers[0]; y.K.Active.Name != c.wantK || y.V.Active.Name != c.wantV {
			t.Errorf("%s/%s %v: %s/%s", c.k, c.v, c.set, y.K.Active.Name, y.V.Active.Name)
		}
	}
}

// Attention temperature: the specification's factors, at lengths rounded up to 256,
// for the forms that have one, and only if it is on.
func TestTemper(t *testing.T) {
	for _, c := range []struct {
		name string
		dim  int
		n    int
		want float64
	}{
		{"tbq3", 256, 2048, 1 + 0.00579*math.Sqrt(math.Log(2048))},
		{"tbqp3", 512, 1793, 1 + 0.01304*math.Sqrt(math.Log(2048))},
		{"tbq4", 256, 1, 1 + 0.00326*math.Sqrt(math.Log(256))},
		{"tbqp4", 64, 4096, 6.13 / (6.13 + math.Sqrt(math.Log(4096)/7.6246))},
		{"tbq3_2", 64, 300, 7.80 / (7.80 + math.Sqrt(math.Log(512)/7.6246))},
		{"tbq3", 64, 2048, 3.45 / (3.45 + math.Sqrt(math.Log(2048)/7.6246))}, // stored as tbqp3_3
		{"tbq3", 128, 2048, 1},
		{"amx3", 128, 2048, 1},
		{"tbq4", 576, 2048, 1},
		{"turbo3", 256, 2048, 1},
	} {
		l := resolve(t, want(t, c.name, "f16"), model(1, 2, 2, c.dim), Settings{Cells: 64})
		if got := float64(l.Layers[0].Temper.Factor(c.n)); math.Abs(got-c.want) > 1.0/(1<<23) { // one float32 ulp just above 1
			t.Errorf("%s at %d over %d: %.8f, want %.8f", c.name, c.dim, c.n, got, c.want)
		}
		l = resolve(t, want(t, c.name, "f16"), model(1, 2, 2, c.dim), Settings{Cells: 64, Temperature: Off})
		if l.Layers[0].Temper.On() {
			t.Errorf("%s at %d: on though switched off", c.name, c.dim)
		}
	}
}
