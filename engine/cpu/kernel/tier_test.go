package kernel

import "testing"

func TestChooseTier(t *testing.T) {
	all := Tiers()
	if all[0] != Generic {
		t.Errorf("slowest tier is %v", all[0])
	}
	for _, want := range all {
		if got, err := choose(want.String()); got != want || err != nil {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
	if got, err := choose(""); got != all[len(all)-1] || err != nil {
		t.Errorf("no name: %v, %v", got, err)
	}
	if got, err := choose("sse9"); got != all[len(all)-1] || err == nil {
		t.Errorf("sse9: %v, %v", got, err)
	}
	if err := Use(Tier(77)); err == nil {
		t.Error("tier 77 taken")
	}
}
