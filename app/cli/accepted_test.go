package cli

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"godwit/app/config"
)

// TestAccepted checks settings that are marked as accepted without effect: none of
// them changes the options of a load, and every other setting does.
func TestAccepted(t *testing.T) {
	r := &run{ctx: t.Context(), log: slog.New(slog.DiscardHandler)}
	base := config.Default()
	base.Engine.Backend = "cpu"
	plain, err := r.optionsQuietly(&base.Engine, later)
	if err != nil {
		t.Fatal(err)
	}
	effect := func(f *config.Field, value any) bool {
		s, err := base.With(map[string]any{f.Name: value})
		if err != nil {
			t.Fatalf("%s = %v: %v", f.Name, value, err)
		}
		o, err := r.optionsQuietly(&s.Engine, later)
		return err != nil || !reflect.DeepEqual(o, plain)
	}
	seen := 0
	for _, f := range config.Fields() {
		if len(f.Name) < 7 || f.Name[:7] != "engine." {
			continue
		}
		now := f.Value(&base)
		var works []any // values that must have an effect
		switch {
		case f.From == "kv":
			works = []any{"q8_0"}
		case f.Kind == "bool":
			works = []any{now != true}
		case f.Kind == "int", f.Kind == "float":
			n := *f.Min + 3
			if f.Max != nil {
				n = min(n, *f.Max)
			}
			works = []any{fmt.Sprint(n)}
		case f.Kind == "size":
			works = []any{"64MiB"}
		case f.Kind == "list":
			works = []any{[]string{"x"}}
		case f.Kind == "innerq":
			works = []any{"1"}
		case f.Name == "engine.draft":
			works = []any{"ngram"}
		case f.Name == "engine.mmproj":
			works = []any{"mmproj-x.gguf"}
		default:
			for _, c := range f.Choices {
				if c != now && c != "auto" && !slices.Contains(f.Useless, c) {
					works = append(works, c)
				}
			}
		}
		for _, c := range f.Useless {
			if seen++; effect(&f, c) {
				t.Errorf("%s = %s is said to have no effect and has one", f.Name, c)
			}
		}
		for _, value := range works {
			if got := effect(&f, value); got == f.Inert {
				t.Errorf("%s = %v: has an effect %v, is said to have none %v", f.Name, value, got, f.Inert)
			}
		}
		if len(works) == 0 {
			t.Errorf("%s: nothing was tried", f.Name)
		}
		if f.Inert {
			seen++
		}
	}
	if seen != 2 {
		t.Errorf("%d settings or values without effect, want --batch-size and --attn-math int8", seen)
	}
}
