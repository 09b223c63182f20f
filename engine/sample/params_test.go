package sample

import (
	"errors"
	"math"
	"strings"
	"testing"

	"godwit/engine/llm"
)

func TestZeroAndDefaultsAreValid(t *testing.T) {
	for name, p := range map[string]Params{"zero": {}, "defaults": Defaults()} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := Params{
		Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, TypicalP: 1, RepeatPenalty: 1, RepeatLastN: 64,
		DRYBase: 1.75, DRYAllowedLength: 2, DRYLastN: -1, XTCThreshold: 0.1, Seed: -1,
	}
	for _, f := range fields {
		if got := Defaults(); f.get(&got) != f.get(&want) {
			t.Errorf("default of %s is %v, want %v", f.Name, f.get(&got), f.get(&want))
		}
	}
}

func TestFieldsNameAndRange(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Fields() {
		for _, n := range append([]string{f.Name}, f.Aliases...) {
			if seen[n] {
				t.Errorf("%s: name taken twice", n)
			}
			seen[n] = true
			if got, ok := Lookup(n); !ok || got.Name != f.Name {
				t.Errorf("Lookup(%q) = %q, %v", n, got.Name, ok)
			}
		}
		if got, ok := Lookup(f.Flag); !ok || got.Name != f.Name {
			t.Errorf("Lookup(%q) = %q, %v", f.Flag, got.Name, ok)
		}
		if f.Help == "" || f.Default < f.Min || f.Default > f.Max {
			t.Errorf("%s: help %q, default %v of %v to %v", f.Name, f.Help, f.Default, f.Min, f.Max)
		}
		var p Params
		for _, v := range []float64{f.Min, f.Max, f.Default} {
			if err := f.Set(&p, v); err != nil {
				t.Errorf("%s = %v: %v", f.Name, v, err)
			}
			if got := f.Value(&p); got != v && !(v == 0 && got == math.SmallestNonzeroFloat64) {
				t.Errorf("%s set to %v reads %v", f.Name, v, got)
			}
		}
		bad := []float64{math.Nextafter(f.Min, math.Inf(-1)), math.NaN(), math.Inf(1)}
		if f.Integer {
			bad = append(bad, 0.5)
		}
		for _, v := range bad {
			if err := f.Set(&p, v); !errors.Is(err, ErrParam) || !strings.Contains(err.Error(), f.Name) {
				t.Errorf("%s = %v: error %v does not name it", f.Name, v, err)
			}
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for want, p := range map[string]Params{
		"temperature":           {Temperature: -0.1},
		"top_p":                 {TopP: 1.5},
		"min_p":                 {MinP: math.NaN()},
		"top_k":                 {TopK: -2},
		"dry_base":              {DRYBase: 0.5},
		"logit_bias of token 7": {LogitBias: map[llm.Token]float64{7: 101}},
		"token -1":              {LogitBias: map[llm.Token]float64{-1: 1}},
		"entry 0":               {DRYBreakers: []string{""}},
		"65 entries":            {DRYBreakers: make([]string, 65)},
	} {
		err := p.Validate()
		if !errors.Is(err, ErrParam) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
		if _, e := New(p, 10, nil); e == nil || e.Error() != err.Error() {
			t.Errorf("%s: New says %v", want, e)
		}
	}
	if _, err := New(Params{LogitBias: map[llm.Token]float64{10: 1}}, 10, nil); !errors.Is(err, ErrParam) {
		t.Errorf("bias outside the vocabulary: %v", err)
	}
}
