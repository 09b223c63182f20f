package kv

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]string{
		"f16": "f16", "F16": "f16", " q8_0 ": "q8_0", "turbo2_0": "turbo2", "turbo3_0": "turbo3", "turbo4_0": "turbo4",
		"turbo3-oa": "oa-turbo3", "turbo2-oa": "oa-turbo2", "tq3": "tq3_0", "tq3-unixsysdev": "tq3_0-qjl",
		"amx3_1": "amx3", "amxv3_1": "amxv3", "amxv3": "amxv3", "tbq3": "tbq3", "tbqp4_4": "tbqp4_4", "iq4_nl-rot": "iq4_nl-rot",
	} {
		typ, err := Parse(name)
		if err != nil || typ.Name != want {
			t.Errorf("%q: %v, want %s (%v)", name, typ, want, err)
		}
	}
	for name, why := range map[string]string{
		"tbqx3":      "removed by its author, use amx3",
		"turbo3-b32": "use turbo3",
		"turbo2-b32": "use turbo2",
		"tq3_1s":     "a weight format",
		"tq4_1s":     "a weight format",
		"turbo5":     "choose one of f32, bf16, f16, q8_0, q8_0-rot,",
		"":           "choose one of",
		"42":         "choose one of",
	} {
		if _, err := Parse(name); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", name, err, why)
		}
	}
	_, err := Parse("no such type")
	for _, typ := range Types() {
		if !strings.Contains(err.Error(), typ.Name) {
			t.Errorf("the error does not list %s", typ.Name)
		}
	}
}

func TestParseForm(t *testing.T) {
	for _, name := range []string{"tbq3_3", "amx3_1", "turbo3-b32", "tq3_0-qjl", "amxv3_1", "q4_0-rot", "TBQP4_4"} {
		if _, err := ParseForm(name); err != nil {
			t.Error(err)
		}
	}
	for name, why := range map[string]string{"tbq3": "tbq3_1", "tbqx3": "removed", "tq3_1s": "weight", "x": "forms are"} {
		if _, err := ParseForm(name); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", name, err, why)
		}
	}
}

// If a form does not support a head size, the error lists the supported ones.
func TestHold(t *testing.T) {
	for _, c := range []struct {
		name   string
		dim    int
		padded int
		why    string
	}{
		{"turbo3", 80, 128, ""},
		{"turbo3-b32", 64, 128, ""},
		{"oa-turbo3", 256, 256, ""},
		{"oa-turbo3", 64, 0, "multiples of 128"},
		{"q8_0", 80, 0, "multiples of 32"},
		{"q4_0-rot", 96, 96, ""},
		{"tbq3_0", 512, 512, ""},
		{"tbq3_0", 128, 0, "heads of 256 and 512"},
		{"tbq3_3", 128, 0, "heads of 64, asked for 128"},
		{"tbq4_4", 512, 0, "heads of 576"},
		{"amx3", 64, 0, "heads of 128"},
		{"f16", 0, 0, "heads of 1 to"},
		{"turbo3", 1 << 30, 0, "heads of 1 to"},
	} {
		typ, err := ParseForm(c.name)
		if err != nil {
			t.Fatal(err)
		}
		form, err := typ.Hold(c.dim)
		switch {
		case c.why != "":
			if !errors.Is(err, ErrHead) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s at %d: %v, want %q", c.name, c.dim, err, c.why)
			}
		case err != nil || form.Padded(c.dim) != c.padded:
			t.Errorf("%s at %d: %v", c.name, c.dim, err)
		}
	}
}

// The literals are complete: every field of a block is inside it and no two
// overlap, groups and notes are set, and tables have the size of the codes.
func TestLiterals(t *testing.T) {
	for _, typ := range Types() {
		if typ.Note == "" || !slices.Contains([]string{Safe, Balanced, Small, Experimental}, typ.Group) {
			t.Errorf("%s: note %q, group %q", typ.Name, typ.Note, typ.Group)
		}
	}
	for _, f := range Forms() {
		checkLiteral(t, f)
		for _, v := range f.Variants {
			checkLiteral(t, v.Form)
		}
		if f.Cut != nil {
			for _, b := range f.Cut.blocks {
				checkLiteral(t, b)
			}
		}
	}
}

func checkLiteral(t *testing.T, f *Type) {
	if f.Float || f.Join != nil || f.Cut != nil {
		return
	}
	used := make([]bool, f.Bytes)
	claim := func(at, n int) {
		for i := at; i < at+n; i++ {
			if used[i] {
				t.Errorf("%s: byte %d has two meanings", f.Name, i)
			}
			used[i] = true
		}
	}
	claim(f.Scale.At, 2)
	if f.Scale.Affine {
		claim(f.Scale.Min, 2)
	}
	low, high := f.Codes.Bits, 0
	switch f.Codes.Packing {
	case Planes:
		low, high = 2, 1
	case Halves:
		low, high = 4, f.Codes.Bits-4
	}
	claim(f.Codes.At, f.Elems*low/8)
	claim(f.Codes.High, f.Elems*high/8)
	if r := f.Residual; r != nil {
		claim(r.Bits, f.Elems/8)
		if r.At != noScale {
			claim(r.At, 2)
		}
	}
	if p := f.Polar; p != nil {
		claim(p.Sigma, 2)
		claim(p.Radius, f.Elems/2*3/8)
		claim(p.Angle, f.Elems/2*4/8)
	}
	if f.Name == "turbo4" {
		claim(2, 2) // reserved
	}
	if i := slices.Index(used, false); i >= 0 {
		t.Errorf("%s: byte %d has no meaning", f.Name, i)
	}
	levels := 1 << f.Codes.Bits
	if f.Codes.Packing == Cyclic {
		levels = trellisLevels
	}
	if n := len(f.Codes.Levels); f.Codes.Packing != Int8 && n != levels {
		t.Errorf("%s: %d levels for %d bits", f.Name, n, f.Codes.Bits)
	}
	if n := len(f.Codes.Boundaries); n > 0 && (n != len(f.Codes.Levels)-1 || !slices.IsSorted(f.Codes.Boundaries)) {
		t.Errorf("%s: boundaries %v", f.Name, f.Codes.Boundaries)
	}
}
