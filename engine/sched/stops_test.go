package sched

import (
	"slices"
	"testing"
	"time"

	"godwit/engine/prefix"
)

func TestThinned(t *testing.T) {
	var list []int
	for i := 1; i <= 100; i++ {
		list = append(list, 10*i)
	}
	got := thinned(list, 1005)
	want := []int{10, 370, 690, 850, 930, 940, 950, 960, 970, 980, 990, 1000}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := thinned(list[:5], 60); !slices.Equal(got, list[:5]) {
		t.Errorf("few: %v", got)
	}
	if got := thinned(nil, 60); len(got) > 0 {
		t.Errorf("none: %v", got)
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		prompt, cached, alike int
		exact, evicted        bool
		pos                   int
		want                  string
	}{
		{200, 192, 195, false, false, 192, "all but the last page"},
		{500, 0, 20, false, false, 0, "nothing begins alike"},
		{500, 0, 20, false, true, 0, "evicted 3 min ago"},
		{500, 128, 300, false, false, 128, "no reuse point between 128 and 300"},
		{500, 128, 300, true, true, 128, "exact form gone between 128 and 300"},
		{500, 256, 300, true, false, 300, "differs at 300, in part 2 of 3"},
		{500, 64, 110, true, false, 110, "differs at 110, in the system message, part 1 of 3"},
		{500, 256, 256, false, true, 256, "evicted 3 min ago"},
	} {
		r := Reuse{Stats: Stats{Prompt: c.prompt, Cached: c.cached}, Alike: c.alike, Borders: []int{200, 400}, Roles: []string{"system"}, Exact: c.exact}
		if c.evicted {
			r.Evicted = time.Now().Add(-200 * time.Second)
		}
		if pos, got := r.End(); pos != c.pos || got != c.want {
			t.Errorf("%+v: %q at %d", c, got, pos)
		}
	}
	for want, e := range map[string]prefix.Elsewhere{
		"other cache type, known up to 320 with gw3/gw3": {Tokens: 320, Types: "gw3/gw3"},
		"other settings, known up to 320":                {Tokens: 320},
		"other model file, known up to 320":              {Tokens: 320, Model: true, Types: "f16/f16"},
		"differs at 150":                                 {Tokens: 192},
	} {
		r := Reuse{Stats: Stats{Prompt: 500, Cached: 128}, Alike: 150, Elsewhere: e}
		if pos, got := r.End(); got != want {
			t.Errorf("%+v: %q at %d, want %q", e, got, pos, want)
		}
	}
}
