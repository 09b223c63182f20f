package page

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"godwit/app/store"
)

// presetFormat marks a file of presets. Version 2 added the tools in the
// settings; version 1 is still read.
const (
	presetFormat  = "godwit-presets"
	presetVersion = 2
)

// presetFile is a file of presets.
type presetFile struct {
	Format  string       `json:"format"`
	Version int          `json:"version"`
	Presets []filePreset `json:"presets"`
}

// filePreset is a preset in a file. It has no id.
type filePreset struct {
	Name     string          `json:"name"`
	System   string          `json:"system"`
	Model    string          `json:"model,omitempty"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

func (p *Page) savePreset(w http.ResponseWriter, r *http.Request) (any, error) {
	var preset store.Preset
	if err := read(w, r, textBody, &preset); err != nil {
		return nil, err
	}
	if _, _, err := readSettings(preset.Settings); err != nil {
		return nil, err
	}
	preset, err := p.o.Store.SavePreset(r.Context(), preset)
	if err != nil {
		return nil, err
	}
	return preset, p.presetsChanged(r)
}

func (p *Page) deletePreset(_ http.ResponseWriter, r *http.Request) (any, error) {
	preset, err := id(r)
	if err != nil {
		return nil, err
	}
	if err := p.o.Store.DeletePreset(r.Context(), preset); err != nil {
		return nil, err
	}
	return nil, p.presetsChanged(r)
}

func (p *Page) presetsChanged(r *http.Request) error {
	list, err := p.o.Store.Presets(r.Context())
	if err == nil {
		p.events.publish("presets", "presets", list)
	}
	return err
}

// writePresets writes all presets as a file.
func (p *Page) writePresets(ctx context.Context, w io.Writer) error {
	list, err := p.o.Store.Presets(ctx)
	if err != nil {
		return err
	}
	f := presetFile{Format: presetFormat, Version: presetVersion, Presets: []filePreset{}}
	for _, x := range list {
		f.Presets = append(f.Presets, filePreset{x.Name, x.System, x.Model, x.Settings})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(f)
}

func (p *Page) exportPresets(w http.ResponseWriter, r *http.Request) (any, error) {
	var b strings.Builder
	if err := p.writePresets(r.Context(), &b); err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, b.String()) // the page may have disconnected
	return sent{}, nil
}

// importPresets imports all presets of a file, or none. An imported preset
// replaces an existing one with the same name.
func (p *Page) importPresets(w http.ResponseWriter, r *http.Request) (any, error) {
	var f presetFile
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, textBody))
	if err := dec.Decode(&f); err != nil || f.Format != presetFormat || dec.More() {
		return nil, bad(textNotPresets)
	}
	if f.Version < 1 || f.Version > presetVersion {
		return nil, bad(textPresetVersion, f.Version, presetVersion)
	}
	list := make([]store.Preset, 0, len(f.Presets))
	for _, x := range f.Presets {
		if _, _, err := readSettings(x.Settings); err != nil {
			return nil, bad(textPresetFault, x.Name, err)
		}
		list = append(list, store.Preset{Name: x.Name, System: x.System, Model: x.Model, Settings: x.Settings})
	}
	if err := p.o.Store.PutPresets(r.Context(), list); err != nil {
		return nil, err
	}
	return map[string]int{"presets": len(list)}, p.presetsChanged(r)
}

// variables returns a replacer for the variables that a system prompt may
// contain. A variable after a backslash stays as it is, without the backslash.
func variables(model string, now time.Time) *strings.Replacer {
	return strings.NewReplacer(
		`\{{date}}`, "{{date}}", "{{date}}", now.Format("Monday, 2 January 2006"),
		`\{{model}}`, "{{model}}", "{{model}}", model,
	)
}
