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

// TestPresetFile exports presets and imports them again, all of them or none.
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
	first := presetFile{presetFormat, 1, []filePreset{{Name: "Owl", System: "Hoot."}}}
	if n := ask[map[string]int](d, "POST", "/app/presets/import", first)["presets"]; n != 1 || list() != want {
		t.Errorf("version 1: %d presets, %s", n, list())
	}
	tools := json.RawMessage(`{"tools":[` + weather + `]}`)
	ask[store.Preset](d, "POST", "/app/presets", map[string]any{"name": "Tern", "settings": tools})
	out = ask[presetFile](d, "GET", "/app/presets/export", nil)
	if out.Version != 2 || len(out.Presets) != 3 {
		t.Fatalf("exported %+v", out)
	}
	if n := ask[map[string]int](d, "POST", "/app/presets/import", out)["presets"]; n != 3 {
		t.Errorf("%d presets taken in, want 3", n)
	}
	want += "Tern:   " + string(tools) + "; "
	if got := list(); got != want {
		t.Errorf("presets %s, want %s", got, want)
	}
	hot := json.RawMessage(`{"sampling":{"temperature":99}}`)
	misnamed := json.RawMessage(`{"tools":[{"type":"function","function":{"name":"a b"}}]}`)
	many := presetFile{presetFormat, 2, nil}
	for i := range 1001 {
		many.Presets = append(many.Presets, filePreset{Name: strconv.Itoa(i)})
	}
	for name, c := range map[string]struct {
		body any
		want string
	}{
		"another file":   {map[string]any{"format": "other"}, "not a preset file"},
		"no object":      {[]int{1}, "not a preset file"},
		"a newer file":   {presetFile{presetFormat, 3, nil}, "version 3"},
		"version 0":      {presetFile{presetFormat, 0, nil}, "version 0"},
		"a wrong tool":   {presetFile{presetFormat, 2, []filePreset{{Name: "New"}, {Name: "Tool", Settings: misnamed}}}, "Tool"},
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

// TestVariables replaces the variables in system prompts.
func TestVariables(t *testing.T) {
	now := time.Date(2026, time.March, 5, 1, 2, 3, 0, time.UTC)
	for text, want := range map[string]string{
		"{{model}}, {{date}}, {{ date }}": "owl, Thursday, 5 March 2026, {{ date }}",
		`\{{date}} is {{date}}`:           "{{date}} is Thursday, 5 March 2026",
		`{{model}}\{{model}}\{{other}}`:   `owl{{model}}\{{other}}`,
		`\\{{date}}`:                      `\{{date}}`,
	} {
		if got := variables("owl", now).Replace(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
