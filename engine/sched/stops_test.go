package sched

import (
	"slices"
	"testing"
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
		want                  string
	}{
		{200, 192, 195, "all but the last page"},
		{500, 0, 20, "nothing begins alike"},
		{500, 128, 300, "no reuse point between 128 and 300"},
		{500, 256, 300, "differs at 300"},
	} {
		if got := (Reuse{Stats{Prompt: c.prompt, Cached: c.cached}, c.alike}).Why(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
