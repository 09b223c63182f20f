package page

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit/app/store"
)

// TestPresetFile takes presets out and in again, all of them or none.
func TestPresetFile(t *testing.T) {
	d := open(t, newFolder(t, false), nil)
	ask[store.Preset](d, "POST", "/app/presets", map[string]any{"name": "Bird", "system": "You are a bird. <3", "model": "owl", "settings": map[string]any{"max_tokens": 9}})
	out := ask[presetFile](d, "GET", "/app/presets/export", nil)
	if len(out.Presets) != 1 || out.Presets[0].System != "You are a bird. <3" || out.Presets[0].Model != "owl" {
		t.Fatalf("exported %+v", out)
	}
	out.Presets[0].System = "You are a heron."
	out.Presets = append(out.Presets, filePreset{Name: "Owl", System: "Hoot."})
	if n := ask[map[string]int](d, "POST", "/app/presets/import", out)["presets"]; n != 2 {
		t.Errorf("%d presets taken in, want 2", n)
	}
	want := `Bird: You are a heron. owl {"max_tokens":9}; Owl: Hoot.  {}; `
	list := func() string {
		var b strings.Builder
		presets, err := d.o.Store.Presets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range presets {
			b.WriteString(p.Name + ": " + p.System + " " + p.Model + " " + string(p.Settings) + "; ")
		}
		return b.String()
	}
	if got := list(); got != want {
		t.Errorf("presets %s, want %s", got, want)
	}
	hot := json.RawMessage(`{"sampling":{"temperature":99}}`)
	many := presetFile{presetFormat, 1, nil}
	for i := range 1001 {
		many.Presets = append(many.Presets, filePreset{Name: strconv.Itoa(i)})
	}
	for name, c := range map[string]struct {
		body any
		want string
	}{
		"another file":   {map[string]any{"format": "other"}, "not a file of presets"},
		"no object":      {[]int{1}, "not a file of presets"},
		"a newer file":   {presetFile{presetFormat, 2, nil}, "version 2"},
		"a wrong number": {presetFile{presetFormat, 1, []filePreset{{Name: "New"}, {Name: "Hot", Settings: hot}}}, "Hot"},
		"no name":        {presetFile{presetFormat, 1, []filePreset{{Name: "New"}, {}}}, "needs a name"},
		"too many":       {many, "at most 1000"},
	} {
		if status, text := d.refused("POST", "/app/presets/import", c.body); status != http.StatusBadRequest || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if got := list(); got != want {
			t.Errorf("%s: presets %s", name, got)
		}
	}
}

// TestVariables fills in what a system prompt names.
func TestVariables(t *testing.T) {
	now := time.Date(2026, time.March, 5, 1, 2, 3, 0, time.UTC)
	if got, want := variables("owl", now).Replace("{{model}}, {{date}}, {{ date }}"), "owl, Thursday, 5 March 2026, {{ date }}"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
