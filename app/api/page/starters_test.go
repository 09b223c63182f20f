package page

import (
	"encoding/json"
	"slices"
	"testing"

	"godwit/app/hub"
)

// TestStarters checks the rules of the list of recommended models, and the choice
// by memory.
func TestStarters(t *testing.T) {
	var groups []starterGroup
	if err := json.Unmarshal(startersFile, &groups); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		recommended := 0
		for _, s := range g.Models {
			if _, err := hub.ParseRef(s.Ref); err != nil || s.Name == "" || s.Note == "" || s.Context < 8192 {
				t.Errorf("%+v: %v", s, err)
			}
			if f := fit(s.Size, machine{Memory: g.Memory << 30, Free: g.Memory << 30 * 3 / 4}); f != "fits" {
				t.Errorf("%s does not fit in %d GiB with three quarters free: %s", s.Name, g.Memory, f)
			}
			if s.Recommended {
				recommended++
			}
		}
		if len(g.Models) != 3 || recommended != 1 {
			t.Errorf("%d GiB: %d models, %d recommended", g.Memory, len(g.Models), recommended)
		}
	}
	if !slices.IsSortedFunc(groups, func(a, b starterGroup) int { return int(a.Memory - b.Memory) }) {
		t.Error("the groups are not in the order of memory")
	}
	for _, c := range []struct {
		memory int64 // memory of the machine in MiB
		want   int   // index of the expected group
	}{{0, 0}, {3900, 0}, {7600, 0}, {15_000, 1}, {22_000, 1}, {23_400, 2}, {24_000, 2}, {31_500, 3}, {64_000, 4}, {512_000, 4}} {
		got, err := firstStepsOn(machine{Memory: c.memory << 20, Free: c.memory << 20}, 20e9)
		if err != nil {
			t.Fatal(err)
		}
		if got.Models[2].Ref != groups[c.want].Models[2].Ref {
			t.Errorf("%d MiB: %s", c.memory, got.Models[2].Ref)
		}
		if got.Demo.Speed <= got.Models[2].Speed || got.Models[0].Speed <= 0 {
			t.Errorf("%d MiB: speeds %v and %v", c.memory, got.Demo.Speed, got.Models[0].Speed)
		}
	}
}

// TestBandwidth checks that the measured bandwidth is plausible.
func TestBandwidth(t *testing.T) {
	if got := measureBandwidth(2); got < 1e8 || got > 1e13 {
		t.Errorf("%v bytes per second", got)
	}
}
