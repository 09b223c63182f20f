// Package tune keeps the settings of single models: sampling, the length of answers,
// and how a model is loaded. They belong to the model's file and take precedence over
// the settings for all models. A chat, a request and a flag of the command line take
// precedence over them.
//
//	book := tune.Open(filepath.Join(data, "model-settings.json"), tune.Options{})
//	err := book.Put(ctx, path, tune.Settings{Context: 8192})
//	book.Load(path, &engineSettings)      // before a load
//	book.Sample(path, &request.Sampling)  // before an answer
//
// Recommend returns what the maker of a model recommends.
package tune

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"godwit/app/config"
	"godwit/engine"
)

// Settings are the settings of one model. A field that is not set leaves the value to
// the settings for all models.
type Settings struct {
	Sampling     map[string]float64 `json:"sampling,omitempty"`      // values by the names of engine.SamplingFields
	MaxTokens    int                `json:"max_tokens,omitempty"`    // maximum tokens of an answer
	Context      int                `json:"context,omitempty"`       // tokens of one chat
	Preset       string             `json:"preset,omitempty"`        // KV preset: off, quality, balanced or small
	GPULayers    *int               `json:"gpu_layers,omitempty"`    // layers on the GPU
	ChatTemplate string             `json:"chat_template,omitempty"` // path of a template, or the name of a built-in one
	Answered     bool               `json:"answered,omitempty"`      // the recommendation was taken or declined
}

// ErrValue is the class of errors about values that are not allowed.
var ErrValue = config.ErrValue

// Empty reports whether nothing is set.
func (s *Settings) Empty() bool {
	return len(s.Sampling) == 0 && s.MaxTokens == 0 && !s.loads() && !s.Answered
}

// loads reports whether a setting changes how the model is loaded.
func (s *Settings) loads() bool {
	return s.Context != 0 || s.Preset != "" || s.GPULayers != nil || s.ChatTemplate != ""
}

// changes returns the settings that have a counterpart for all models, by its name.
func (s *Settings) changes() map[string]any {
	set := map[string]any{}
	if s.MaxTokens != 0 {
		set["sampling.predict"] = int64(s.MaxTokens)
	}
	if s.Context != 0 {
		set["engine.ctx_size"] = int64(s.Context)
	}
	if s.Preset != "" {
		set["engine.kv_preset"] = s.Preset
	}
	if s.GPULayers != nil {
		set["engine.gpu_layers"] = int64(*s.GPULayers)
	}
	return set
}

// maxTemplate bounds the name of a chat template.
const maxTemplate = 4096

// Check rejects unknown names and values that are out of bounds.
func (s *Settings) Check() error {
	fields := engine.SamplingFields()
	for _, name := range slices.Sorted(maps.Keys(s.Sampling)) {
		i := slices.IndexFunc(fields, func(f engine.SamplingField) bool { return f.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: %.64q is not a sampling parameter", ErrValue, name)
		}
		if err := fields[i].Check(s.Sampling[name]); err != nil {
			return fmt.Errorf("%w: %w", ErrValue, err)
		}
	}
	if len(s.ChatTemplate) > maxTemplate {
		return fmt.Errorf("%w: the name of the chat template has %d bytes; the limit is %d", ErrValue, len(s.ChatTemplate), maxTemplate)
	}
	if n := cmp.Or(min(s.MaxTokens, 0), min(s.Context, 0)); n < 0 {
		return fmt.Errorf("%w: %d is less than 0", ErrValue, n)
	}
	_, err := config.Default().With(s.changes())
	return err
}

// Over sets the load settings in e. A preset also replaces cache types that are set for
// all models, because these would take precedence over it.
func (s *Settings) Over(e *config.Engine) {
	if s.Context != 0 {
		e.CtxSize = s.Context
	}
	if s.Preset != "" {
		e.KVPreset, e.CacheTypeK, e.CacheTypeV, e.KVAuto = s.Preset, "", "", 0
	}
	if s.GPULayers != nil {
		e.GPULayers = s.GPULayers
	}
	if s.ChatTemplate != "" {
		e.ChatTemplate = []string{s.ChatTemplate}
	}
}

// flags returns the flags of the settings that s replaces.
func (s *Settings) flags() (list []string) {
	add := func(set bool, flags ...string) {
		if set {
			list = append(list, flags...)
		}
	}
	add(s.Context != 0, "ctx-size")
	add(s.Preset != "", presetFlags...)
	add(s.GPULayers != nil, "gpu-layers")
	add(s.ChatTemplate != "", "chat-template")
	add(s.MaxTokens != 0, "predict")
	for _, f := range engine.SamplingFields() {
		_, set := s.Sampling[f.Name]
		add(set, f.Flag)
	}
	return list
}

// presetFlags are the flags of the settings that a preset replaces.
var presetFlags = []string{"kv-preset", "cache-type-k", "cache-type-v", "kv-auto"}

// without returns the settings without those that the command line sets.
func (s Settings) without(given func(flags ...string) bool) Settings {
	if given("ctx-size") {
		s.Context = 0
	}
	if given(presetFlags...) {
		s.Preset = ""
	}
	if given("gpu-layers") {
		s.GPULayers = nil
	}
	if given("chat-template") {
		s.ChatTemplate = ""
	}
	if given("predict") {
		s.MaxTokens = 0
	}
	s.Sampling = maps.Clone(s.Sampling)
	for _, f := range engine.SamplingFields() {
		if given(f.Flag) {
			delete(s.Sampling, f.Name)
		}
	}
	return s
}

// Apply sets the sampling settings in p.
func (s *Settings) Apply(p *engine.Sampling) error {
	var errs []error
	for _, f := range engine.SamplingFields() {
		if x, ok := s.Sampling[f.Name]; ok {
			errs = append(errs, f.Set(p, x))
		}
	}
	return errors.Join(errs...)
}
