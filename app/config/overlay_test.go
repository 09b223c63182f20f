package config

import (
	"errors"
	"testing"
)

func TestWith(t *testing.T) {
	base := Default()
	got, err := base.With(map[string]any{"engine.ctx_size": 8192, "server.keep_alive": "1h", "library.folders": []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Engine.CtxSize != 8192 || got.Server.KeepAlive.String() != "1h" || len(got.Library.Folders) != 1 {
		t.Errorf("got %+v", got)
	}
	if base.Engine.CtxSize != 0 || base.Library.Folders != nil {
		t.Error("the settings it was made from have changed")
	}
	for name, value := range map[string]any{"engine.ctx_sice": 1, "engine.ctx_size": -1, "ctx-size": 1, "engine.threads": "many"} {
		if _, err := base.With(map[string]any{name: value}); !errors.Is(err, ErrValue) {
			t.Errorf("%s = %v: error %v, want ErrValue", name, value, err)
		}
	}
	reset, err := got.With(map[string]any{"engine.ctx_size": nil})
	if err != nil || reset.Engine.CtxSize != 0 {
		t.Errorf("reset: %d, %v", reset.Engine.CtxSize, err)
	}
}
