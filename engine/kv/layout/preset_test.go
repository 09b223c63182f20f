package layout

import (
	"errors"
	"testing"
)

func TestPresets(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers []LayerInfo
		k, v   string
	}{
		{"off", model(4, 8, 8, 64), "f16", "f16"},
		{"quality", model(4, 8, 8, 128), "gw4", "gw4"},
		{"quality", model(4, 8, 8, 64), "gw4", "gw4"},
		{"quality", model(4, 8, 8, 96), "gw4", "gw4"},
		{"quality", model(4, 8, 8, 80), "f16", "f16"},
		{"balanced", model(4, 8, 8, 256), "gw4", "gw3"},
		{"balanced", model(4, 8, 8, 64), "gw4", "gw3"},
		{"small", model(4, 8, 8, 128), "gw3", "gw3"},
		{"small", model(4, 48, 8, 128), "gw3", "gw3"},
		{"small", model(4, 9, 3, 64), "gw3", "gw3"},
		{"Small", append(model(1, 8, 8, 64), model(1, 8, 8, 128)...), "gw3", "gw3"},
	} {
		w, err := PresetWant(c.name, c.layers)
		if err != nil || w.K.Name != c.k || w.V.Name != c.v {
			t.Errorf("%s at %d: %v (%v), want %s and %s", c.name, c.layers[0].HeadDimK, w, err, c.k, c.v)
		}
	}
	latent := model(2, 16, 1, 576)
	for i := range latent {
		latent[i].MLA, latent[i].HeadDimV = true, 512
	}
	for i := range presets {
		w := presets[i].Want(latent)
		if l := resolve(t, w, latent, Settings{Cells: 64}); l.Layers[0].K.Reason != "" && l.Layers[0].K.Reason != "head 576" {
			t.Errorf("%s: %s", presets[i].Name, l.Layers[0].K.Reason)
		}
	}
	if _, err := PresetWant("best", nil); !errors.Is(err, ErrPreset) {
		t.Error(err)
	}
	if len(Presets()) != 4 {
		t.Error("presets")
	}
}
