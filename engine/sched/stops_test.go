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
