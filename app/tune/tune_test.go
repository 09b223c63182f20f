package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/engine"
)

func book(t *testing.T, given ...string) *Book {
	t.Helper()
	return Open(filepath.Join(t.TempDir(), "data", FileName), Options{Given: func(flags ...string) bool {
		return slices.ContainsFunc(flags, func(f string) bool { return slices.Contains(given, f) })
	}})
}

// model returns a full path on this system.
func model(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func full() Settings {
	layers := 3
	return Settings{
		Sampling:  map[string]float64{"temperature": 0.3, "top_k": 20, "repeat_penalty": 1.1},
		MaxTokens: 99, Context: 4096, Preset: "small", GPULayers: &layers, ChatTemplate: "chatml",
	}
}

// TestOrder tests that the model's settings take precedence over those for all models,
// and flags over both.
func TestOrder(t *testing.T) {
	b, path := book(t), model(t, "a.gguf")
	if err := b.Put(t.Context(), path, full()); err != nil {
		t.Fatal(err)
	}
	e := config.Default().Engine
	e.CacheTypeK, e.CacheTypeV, e.KVAuto, e.CtxSize, e.ChatTemplate = "q8_0", "q4_0", 3, 100, []string{"x", "y"}
	if !b.Load(path, &e) {
		t.Error("the load is said to be as for other models")
	}
	if e.CtxSize != 4096 || e.KVPreset != "small" || e.CacheTypeK != "" || e.CacheTypeV != "" || e.KVAuto != 0 || *e.GPULayers != 3 || !slices.Equal(e.ChatTemplate, []string{"chatml"}) {
		t.Errorf("engine %+v", e)
	}
	p := engine.SamplingDefaults()
	b.Sample(path, &p)
	if p.Temperature != 0.3 || p.TopK != 20 || p.RepeatPenalty != 1.1 || p.TopP != engine.SamplingDefaults().TopP {
		t.Errorf("sampling %+v", p)
	}
	if n := b.MaxTokens(path, 7); n != 99 {
		t.Errorf("%d tokens, want 99", n)
	}
	other := config.Default().Engine
	if b.Load(model(t, "b.gguf"), &other) || !cmp.Equal(other, config.Default().Engine) || b.MaxTokens(model(t, "b.gguf"), 7) != 7 {
		t.Error("another model has settings too")
	}

	strict := Open(b.path, Options{Given: func(flags ...string) bool {
		return slices.ContainsFunc(flags, func(f string) bool {
			return slices.Contains([]string{"ctx-size", "cache-type-k", "gpu-layers", "chat-template", "temp", "predict"}, f)
		})
	}})
	e, p = config.Default().Engine, engine.SamplingDefaults()
	e.CtxSize, e.CacheTypeK = 100, "q8_0"
	strict.Sample(path, &p)
	if strict.Load(path, &e) || e.CtxSize != 100 || e.CacheTypeK != "q8_0" || e.KVPreset != "off" || e.GPULayers != nil || e.ChatTemplate != nil {
		t.Errorf("engine with flags %+v", e)
	}
	if p.Temperature != engine.SamplingDefaults().Temperature || p.TopK != 20 || strict.MaxTokens(path, 7) != 7 {
		t.Errorf("sampling with flags %+v", p)
	}
}

// TestBook tests that settings survive, are shared by two processes, and go.
func TestBook(t *testing.T) {
	a := book(t)
	b := Open(a.path, Options{})
	x, y := model(t, "x.gguf"), model(t, "y.gguf")
	if got := a.Of(x); !got.Empty() {
		t.Errorf("before: %+v", got)
	}
	if err := a.Put(t.Context(), x, full()); err != nil {
		t.Fatal(err)
	}
	if got := b.Of(x); !cmp.Equal(got, full()) {
		t.Errorf("another process reads %+v", got)
	}
	if err := b.Put(t.Context(), y, Settings{Context: 5}); err != nil {
		t.Fatal(err)
	}
	if got := a.Of(y); got.Context != 5 {
		t.Errorf("back: %+v", got)
	}
	if err := a.Put(t.Context(), x, Settings{}); err != nil {
		t.Fatal(err)
	}
	if got := b.Of(x); !got.Empty() {
		t.Errorf("after: %+v", got)
	}
	if err := b.Forget(t.Context(), y); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(a.path)
	if err != nil || strings.Contains(string(data), "gguf") {
		t.Errorf("%v, %s", err, data)
	}
	var none *Book
	if s := none.For(x); !s.Empty() || none.Forget(t.Context(), x) != nil || none.MaxTokens(x, 3) != 3 {
		t.Error("no book has settings")
	}
}

// TestRefused tests that wrong values are not stored.
func TestRefused(t *testing.T) {
	b, minus := book(t), -1
	for name, s := range map[string]Settings{
		"unknown parameter": {Sampling: map[string]float64{"heat": 1}},
		"too hot":           {Sampling: map[string]float64{"temperature": 3}},
		"half a token":      {Sampling: map[string]float64{"top_k": 1.5}},
		"negative context":  {Context: -1},
		"huge context":      {Context: 1 << 40},
		"negative tokens":   {MaxTokens: -5},
		"preset":            {Preset: "tiny"},
		"layers":            {GPULayers: &minus},
		"template":          {ChatTemplate: strings.Repeat("x", maxTemplate+1)},
	} {
		if err := b.Put(t.Context(), model(t, "a.gguf"), s); !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(b.path); err == nil {
		t.Error("something was written")
	}
}

// TestDamaged tests that a file of another hand does no harm, and that nothing is lost
// that can be kept.
func TestDamaged(t *testing.T) {
	good := model(t, "good.gguf")
	for name, x := range map[string]struct {
		text  string
		keeps bool // the good model's settings are read
		aside bool // the file is renamed
	}{
		"empty":        {"", false, true},
		"not JSON":     {"\x00\x01GGUF", false, true},
		"list":         {`[]`, false, true},
		"models":       {`{"models":[1]}`, false, true},
		"null":         {`{"version":1,"models":null}`, false, false},
		"newer":        {`{"version":9,"models":{}}`, false, false},
		"too long":     {`{"version":1,"models":{"` + strings.Repeat("a", maxBytes) + `":{}}}`, false, true},
		"wrong values": {fmt.Sprintf(`{"version":1,"models":{"/a":{"context":-1},"/b":{"context":"x"},"/c":7,"c.gguf":{"context":9},%q:{"context":5},"/d":{"sampling":{"temperature":99}}}}`, good), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), FileName)
			if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
				t.Fatal(err)
			}
			b := Open(path, Options{})
			if got := b.Of(good).Context == 5; got != x.keeps {
				t.Errorf("good model kept: %v", got)
			}
			for _, m := range []string{"/a", "/b", "/c", "/d"} {
				if s := b.Of(m); !s.Empty() {
					t.Errorf("%s: %+v", m, s)
				}
			}
			if _, err := os.Stat(path + ".damaged"); (err == nil) != x.aside {
				t.Errorf("set aside: %v", err)
			}
			err := b.Put(t.Context(), good, Settings{Context: 6})
			if name == "newer" {
				if data, _ := os.ReadFile(path); !errors.Is(err, ErrNewer) || string(data) != x.text {
					t.Errorf("a newer file: %v, now %s", err, data)
				}
				return
			}
			if err != nil || b.Of(good).Context != 6 {
				t.Errorf("afterwards: %v, %+v", err, b.Of(good))
			}
		})
	}
}

// TestBounds tests that the file does not grow without end: models whose files are gone
// make room.
func TestBounds(t *testing.T) {
	b, dir := book(t), t.TempDir()
	var models strings.Builder
	for i := range maxModels {
		path := filepath.Join(dir, fmt.Sprintf("%d.gguf", i))
		if i%2 == 0 {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&models, ",%q:{\"context\":1}", path)
	}
	if err := os.MkdirAll(filepath.Dir(b.path), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func() {
		if err := os.WriteFile(b.path, []byte(`{"version":1,"models":{`+models.String()[1:]+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	extra := filepath.Join(dir, "extra.gguf")
	if err := os.WriteFile(extra, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), extra, Settings{Context: 2}); err != nil {
		t.Fatal(err)
	}
	if got, gone := b.Of(filepath.Join(dir, "0.gguf")), b.Of(filepath.Join(dir, "1.gguf")); got.Context != 1 || !gone.Empty() {
		t.Errorf("kept %+v, gone %+v", got, gone)
	}
	for i := 1; i < maxModels; i += 2 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.gguf", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if err := b.Put(t.Context(), extra, Settings{Context: 2}); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
}

func FuzzBook(f *testing.F) {
	f.Add([]byte(`{"version":1,"models":{"/m.gguf":{"sampling":{"temperature":0.5},"context":4096,"preset":"small"}}}`))
	f.Add([]byte(`{"models":{"/m.gguf":{"gpu_layers":-3,"chat_template":"x"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		b := Open(path, Options{})
		s := b.Of("/m.gguf")
		if err := s.Check(); err != nil {
			t.Errorf("%s gave %+v: %v", data, s, err)
		}
		p := engine.SamplingDefaults()
		if err := s.Apply(&p); err != nil {
			t.Error(err)
		}
	})
}

func TestRecommend(t *testing.T) {
	for name, x := range map[string]struct {
		info hub.Info
		want map[string]float64
		from string
	}{
		"the file":                 {hub.Info{Arch: "qwen3", Base: "qwen3", Chats: true, Sampling: map[string]float64{"temperature": 1, "top_k": 20}}, map[string]float64{"temperature": 1, "top_k": 20}, ""},
		"wrong values in the file": {hub.Info{Arch: "qwen3", Base: "qwen3", Chats: true, Sampling: map[string]float64{"temperature": 99, "heat": 1}}, map[string]float64{"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0}, "Qwen"},
		"thinking":                 {hub.Info{Arch: "qwen3moe", Base: "qwen3", Chats: true, Thinking: true}, map[string]float64{"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0}, "Qwen"},
		"distilled":                {hub.Info{Arch: "qwen3", Base: "deepseek-r1-0528-qwen3", Chats: true, Thinking: true}, map[string]float64{"temperature": 0.6, "top_p": 0.95}, "deepseek"},
		"the demo":                 {hub.Info{Arch: "llama", Base: "smollm2", Chats: true}, map[string]float64{"temperature": 0.2, "top_p": 0.9}, "SmolLM2"},
		"no chat model":            {hub.Info{Arch: "llama", Base: "smollm2"}, nil, ""},
		"unknown":                  {hub.Info{Arch: "llama", Base: "somebody's", Chats: true}, nil, ""},
	} {
		a := Recommend(&x.info)
		if a == nil {
			a = &Advice{}
		}
		if !cmp.Equal(a.Sampling, x.want) || !strings.Contains(a.Source, x.from) || (a.Source == "") != (x.from == "") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, f := range families {
		s := Settings{Sampling: f.sampling}
		if err := s.Check(); err != nil || !strings.HasPrefix(f.source, "https://") || f.arch+f.base == "" {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
