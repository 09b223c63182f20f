package tune

import (
	"testing"

	"godwit/app/config"
	"godwit/engine"
)

// A setting for sampling allows no value that a request would be refused for.
func TestSettingBounds(t *testing.T) {
	found := 0
	for _, p := range engine.SamplingFields() {
		for _, f := range config.Fields() {
			if f.Flag != p.Flag || p.Flag == "" || p.Name == "seed" { // a seed has 64 bits, a setting those of a float
				continue
			}
			found++
			if f.Min == nil || f.Max == nil || *f.Min < p.Min || *f.Max > p.Max {
				t.Errorf("%s has other bounds than a request, %v to %v", f.Name, p.Min, p.Max)
			}
		}
	}
	if found < 4 {
		t.Errorf("%d settings compared", found)
	}
}
