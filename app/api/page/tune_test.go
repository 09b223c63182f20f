package page

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/tune"
	"godwit/engine"
)

// loaded waits until the model is loaded and returns its state.
func (d *desk) loaded() model {
	d.t.Helper()
	ask[any](d, "POST", "/app/models/"+modelName+"/load", nil)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		m := ask[detail](d, "GET", "/app/models/"+modelName, nil).model
		if m.State == pool.Loaded {
			return m
		}
		if m.State == pool.Failed {
			d.t.Fatalf("not loaded: %s", m.Failure)
		}
	}
	d.t.Fatal("not loaded in time")
	return model{}
}

// TestTune tests that a model is loaded with its own settings, that these settings apply
// where a chat or request leaves a field out, and that they are deleted with the model.
func TestTune(t *testing.T) {
	d := openAs(t, newFolder(t, true), func(s *config.Settings) { s.Sampling.TopP = 0.5 }, nil)
	path := filepath.Join(d.dir, "models", modelName+".gguf")
	before := ask[detail](d, "GET", "/app/models/"+modelName, nil)
	if a := before.Advice; a == nil || a.Sampling["temperature"] != 0.2 || a.Source == "" || before.Settings != nil {
		t.Errorf("at first: advice %+v, settings %+v", a, before.Settings)
	}
	own := tune.Settings{Sampling: map[string]float64{"temperature": 0.25, "repeat_penalty": 1.2}, MaxTokens: 3, Context: 512}
	if m := ask[model](d, "POST", "/app/models/"+modelName+"/tune", own); m.Settings == nil || m.Settings.Context != 512 {
		t.Errorf("answer %+v", m.Settings)
	}
	if m := d.loaded(); m.Context != 512 || m.Stale {
		t.Errorf("loaded with %d tokens, stale %v", m.Context, m.Stale)
	}
	d.tunedChats()
	d.tunedRequests()
	own.Context = 256
	if m := ask[model](d, "POST", "/app/models/"+modelName+"/tune", own); !m.Stale {
		t.Error("a new context does not make the loaded model stale")
	}
	ask[any](d, "POST", "/app/models/"+modelName+"/reload", nil)
	if m := d.loaded(); m.Context != 256 {
		t.Errorf("reloaded with %d tokens", m.Context)
	}
	ask[any](d, "DELETE", "/app/models/"+modelName, nil)
	if s := d.o.Tuned.Of(path); !s.Empty() {
		t.Errorf("the model has gone, its settings are %+v", s)
	}
}

// tunedChats tests the order of a chat's, the model's and the common settings.
func (d *desk) tunedChats() {
	d.t.Helper()
	m, ok := d.lookUp(modelName)
	if !ok {
		d.t.Fatal("no model")
	}
	chat := d.newChat(0)
	for _, x := range []struct {
		settings  string
		heat, top float64
		tokens    int
	}{
		{``, 0.25, 0.5, 3},
		{`{"sampling":{"temperature":1.5},"max_tokens":9}`, 1.5, 0.5, 9},
		{`{"sampling":{"top_p":0.7}}`, 0.25, 0.7, 3},
	} {
		chat.Settings = json.RawMessage(x.settings)
		r, err := d.request(&chat, &m, nil, false)
		if err != nil {
			d.t.Fatal(err)
		}
		if s := r.Sampling; s.Temperature != x.heat || s.TopP != x.top || s.RepeatPenalty != 1.2 || r.MaxTokens != x.tokens {
			d.t.Errorf("chat %s: temperature %v, top_p %v, penalty %v, %d tokens", x.settings, s.Temperature, s.TopP, s.RepeatPenalty, r.MaxTokens)
		}
	}
}

// tunedRequests tests what the API uses for the fields that a request leaves out.
func (d *desk) tunedRequests() {
	d.t.Helper()
	for _, x := range []struct {
		body map[string]any
		heat float64
		tops float64
	}{
		{map[string]any{"prompt": "One"}, 0.25, 0.5},
		{map[string]any{"prompt": "One", "temperature": 1.5, "top_p": 0.75}, 1.5, 0.75},
	} {
		got := ask[struct {
			Tokens   int `json:"tokens_predicted"`
			Settings struct {
				Temperature float64 `json:"temperature"`
				TopP        float64 `json:"top_p"`
				Penalty     float64 `json:"repeat_penalty"`
			} `json:"generation_settings"`
		}](d, "POST", "/completion", x.body)
		if s := got.Settings; s.Temperature != x.heat || s.TopP != x.tops || s.Penalty != 1.2 || got.Tokens > 3 {
			d.t.Errorf("request %v: %+v", x.body, got)
		}
	}
}

// TestTuneRefused tests that wrong settings are refused and change nothing.
func TestTuneRefused(t *testing.T) {
	d := open(t, newFolder(t, true), func(o *Options, _ *hub.Options) {
		plain := o.Engine
		o.Engine = func(c *config.Engine) (engine.Options, error) {
			for _, file := range c.ChatTemplate {
				if _, err := os.Stat(file); err != nil {
					return engine.Options{}, err
				}
			}
			return plain(c)
		}
	})
	at := "/app/models/" + modelName + "/tune"
	for _, x := range []struct {
		body   any
		status int
	}{
		{map[string]any{"context": -1}, 400},
		{map[string]any{"context": 1e9}, 400},
		{map[string]any{"preset": "tiny"}, 400},
		{map[string]any{"sampling": map[string]any{"temperature": 9}}, 400},
		{map[string]any{"sampling": map[string]any{"heat": 1}}, 400},
		{map[string]any{"chat_template": "/no/such/file"}, 400},
		{map[string]any{"sampling": 7}, 400},
	} {
		if status, text := d.refused("POST", at, x.body); status != x.status {
			t.Errorf("%v: %d %s", x.body, status, text)
		}
	}
	if status, _ := d.refused("POST", "/app/models/nobody/tune", map[string]any{}); status != 404 {
		t.Errorf("no such model: %d", status)
	}
	if m := ask[detail](d, "GET", "/app/models/"+modelName, nil); m.Settings != nil {
		t.Errorf("settings %+v", m.Settings)
	}
}
