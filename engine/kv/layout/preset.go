package layout

import (
	"errors"
	"fmt"
	"strings"

	"godwit/engine/kv"
)

// ErrPreset is the class of errors about unknown preset names.
var ErrPreset = errors.New("kv: unknown preset")

// Preset is a named pair of cache types. Each side lists types in order of
// preference. The first one that needs neither padding nor replacement in any layer
// of the model is used.
type Preset struct {
	Name   string
	Note   string
	K, V   []string
	Latent string // type of both sides in models with latent attention
}

var presets = []Preset{
	{
		Name: "off", Note: "uncompressed (f16)",
		K: []string{"f16"}, V: []string{"f16"}, Latent: "f16",
	},
	{
		Name: "quality", Note: "about 4 bits; loses at most 0.002 nats on two small models",
		K: []string{"gw4", "q8_0", "f16"}, V: []string{"gw4", "turbo4", "tbq4", "q4_0-rot", "q8_0", "f16"}, Latent: "tbq4",
	},
	{
		Name: "balanced", Note: "keys in 4 bits, values in 3; loses at most 0.003 nats on two small models",
		K: []string{"gw4", "q8_0", "f16"}, V: []string{"gw3", "turbo3", "tbq3", "tq3_0", "q8_0", "f16"}, Latent: "tbq4",
	},
	{
		Name: "small", Note: "about 3 bits; loses at most 0.006 nats on two small models",
		K: []string{"gw3", "turbo4", "q4_0-rot", "q8_0", "f16"}, V: []string{"gw3", "turbo3", "tbq3", "tq3_0", "q8_0", "f16"}, Latent: "tbq3",
	},
}

// Presets returns the presets, from lossless to smallest.
func Presets() []Preset { return append([]Preset(nil), presets...) }

// Want returns a preset's pair of types for a model.
func (p *Preset) Want(layers []LayerInfo) Want {
	latent, most := false, 0
	for i := range layers {
		if in := &layers[i]; in.owns() {
			latent = latent || in.MLA
			most = max(most, in.Heads/max(in.KVHeads, 1))
		}
	}
	if latent {
		t := typeNamed(p.Latent)
		return Want{t, t}
	}
	w := Want{p.pick(p.K, layers, kv.K), p.pick(p.V, layers, kv.V)}
	if w.K.Rules.Asymmetric && most >= 6 {
		w.K = kv.Q8_0
	}
	return w
}

func (p *Preset) pick(names []string, layers []LayerInfo, s kv.Side) *kv.Type {
	for _, name := range names {
		if t := typeNamed(name); suits(t, layers, s) {
			return t
		}
	}
	return kv.F16
}

// typeNamed returns a type that a preset names. It always exists.
func typeNamed(name string) *kv.Type {
	t, err := kv.Parse(name)
	if err != nil {
		panic("kv: preset: " + err.Error())
	}
	return t
}

// suits reports whether t is stored without padding or replacement in every
// layer that has a cache.
func suits(t *kv.Type, layers []LayerInfo, s kv.Side) bool {
	for i := range layers {
		in := &layers[i]
		dim := in.HeadDimK
		if s == kv.V {
			dim = in.HeadDimV
		}
		if !in.owns() {
			continue
		}
		if f := t.Fit(dim, s); f.Replaced || f.Form.Padded(dim) != dim {
			return false
		}
	}
	return true
}

// PresetWant returns the pair of types of a named preset for a model. For an
// unknown name it returns ErrPreset.
func PresetWant(name string, layers []LayerInfo) (Want, error) {
	var names []string
	for i := range presets {
		if presets[i].Name == strings.ToLower(name) {
			return presets[i].Want(layers), nil
		}
		names = append(names, presets[i].Name)
	}
	return Want{}, fmt.Errorf("%w %q; choose one of %s", ErrPreset, name, strings.Join(names, ", "))
}
