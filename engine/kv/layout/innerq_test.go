package layout

import (
	"math"
	"strings"
	"testing"

	"godwit/engine/kv"
)

// statsOf returns statistics of one key with the given channel magnitudes.
func statsOf(k ...float32) *ChannelStats {
	s := NewChannelStats(len(k), Rotary{})
	s.AddKey(0, k)
	return s
}

// The factors of the spec: (mean rms / rms)^strength within a half and two.
func TestEqualisingFactors(t *testing.T) {
	for _, c := range []struct {
		name string
		s    *ChannelStats
		q    InnerQ
		gain []float64
		ok   bool
	}{
		{"half strength", statsOf(1, 3, -2, 2), InnerQ{1, 0.5}, []float64{math.Sqrt2, math.Sqrt(2. / 3), 1, 1}, true},
		{"full strength", statsOf(1, 3, -2, 2), InnerQ{1, 1}, []float64{2, 2. / 3, 1, 1}, true},
		{"no strength is a half", statsOf(1, 3, -2, 2), InnerQ{1, 0}, []float64{math.Sqrt2, math.Sqrt(2. / 3), 1, 1}, true},
		{"too much is a half", statsOf(1, 3, -2, 2), InnerQ{1, 7}, []float64{math.Sqrt2, math.Sqrt(2. / 3), 1, 1}, true},
		{"within limits", statsOf(1, 100, 1, 1), InnerQ{1, 1}, []float64{2, 0.5, 2, 2}, true},
		{"an empty channel", statsOf(0, 2, 2, 4), InnerQ{1, 1}, []float64{1, 1, 1, 0.5}, true},
		{"even already", statsOf(1, 1.1, 0.95, 1), InnerQ{1, 0.5}, nil, false},
		{"nothing", statsOf(0, 0, 0, 0), InnerQ{1, 0.5}, nil, false},
	} {
		got, ok := c.s.Equalise(c.q)
		if ok != c.ok {
			t.Errorf("%s: uneven %v", c.name, ok)
		}
		for i, want := range c.gain {
			if math.Abs(float64(got.Gain[i])-want) > 1e-6 || got.Mean[i] != 0 {
				t.Errorf("%s: channel %d has gain %g and mean %g, want %g and 0", c.name, i, got.Gain[i], got.Mean[i], want)
			}
		}
	}
}

// Only rotated keys have tables, and the plan says so before the tables exist.
func TestEqualisedLayout(t *testing.T) {
	layers := model(2, 4, 2, 64)
	q := InnerQ{256, 0.5}
	if got := q.Tokens(layers); got != 512 {
		t.Errorf("%d tokens, want 512", got)
	}
	table := [][]kv.Channels{make([]kv.Channels, 2), nil}
	for h := range table[0] {
		table[0][h] = kv.Channels{Mean: make([]float32, 64), Gain: make([]float32, 64)}
		for i := range 64 {
			table[0][h].Gain[i] = 2
		}
	}
	for _, c := range []struct {
		k         string
		equalised [][]kv.Channels
		sides     [2]string
	}{
		{"turbo3", nil, [2]string{"innerq", "innerq"}},
		{"turbo3", table, [2]string{"innerq", ""}},
		{"q4_0-rot", table, [2]string{"innerq", ""}},
		{"q4_0", table, [2]string{"", ""}},
		{"f16", nil, [2]string{"", ""}},
		{"gw3", nil, [2]string{"", ""}},
	} {
		l := resolve(t, want(t, c.k, "turbo3"), layers, Settings{Cells: 64, InnerQ: q, Equalised: c.equalised})
		p := NewPlan(&l, "", 64)
		for i, want := range c.sides {
			if got := p.Layers[i].K.Channels; got != want || p.Layers[i].V.Channels != "" {
				t.Errorf("%s layer %d: K %q, V %q, want %q and nothing", c.k, i, got, p.Layers[i].V.Channels, want)
			}
		}
	}
	for _, c := range []struct {
		s    Settings
		want string
	}{
		{Settings{InnerQ: InnerQ{Groups: -1}}, "-1 groups"},
		{Settings{Equalised: table[:1]}, "tables of 1 layers"},
		{Settings{Equalised: [][]kv.Channels{table[0][:1], nil}}, "tables of 1 KV heads"},
		{Settings{Equalised: [][]kv.Channels{{table[0][0], {}}, nil}}, "table has 0 channels"},
	} {
		if _, err := Resolve(Want{}, layers, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
