package config

import (
	"errors"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func init() { Offer("backends", []string{"auto", "cpu", "cuda"}) } // as app/device does

// TestFields checks that every tag is complete and that no two settings share a
// name, a flag or a variable.
func TestFields(t *testing.T) {
	seen := map[string]string{}
	once := func(kind, word, name string) {
		if word == "" {
			return
		}
		if other, ok := seen[kind+word]; ok {
			t.Errorf("%s and %s share the %s %s", other, name, kind, word)
		}
		seen[kind+word] = name
	}
	key := regexp.MustCompile(`^[a-z]+\.[a-z_]+$`)
	for _, f := range Fields() {
		if !key.MatchString(f.Name) {
			t.Errorf("name %q", f.Name)
		}
		once("name ", f.Name, f.Name)
		once("flag ", f.Flag, f.Name)
		once("flag ", f.Short, f.Name)
		once("dash ", f.Dash, f.Name)
		for _, env := range f.Env {
			once("variable ", env, f.Name)
		}
		if f.Help == "" || !strings.HasSuffix(f.Help, ".") || f.Group == "" {
			t.Errorf("%s: help %q, group %q", f.Name, f.Help, f.Group)
		}
		if f.Applies != "load" && f.Applies != "start" && f.Applies != "now" {
			t.Errorf("%s applies %q", f.Name, f.Applies)
		}
		if number := f.Kind == "int" || f.Kind == "float"; number && (f.Min == nil || f.Max == nil) {
			t.Errorf("%s is a number without bounds", f.Name)
		}
		if f.Auto != (f.Default == "" && f.Kind != "text" && f.Kind != "list") {
			t.Errorf("%s: unset is %v, default %q", f.Name, f.Auto, f.Default)
		}
	}
}

// TestDefaultsHold checks that the defaults are within their bounds.
func TestDefaultsHold(t *testing.T) {
	s := Default()
	for _, v := range []interface{ Validate() error }{&s.Engine, &s.Sampling, &s.Server, &s.Library, &s.App} {
		if err := v.Validate(); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
	if s.Engine.SparseV != 1e-6 || s.Server.Port != 11711 || !s.Engine.MMap || s.Engine.KVPolicy != nil || s.Server.StateBudget != 4<<30 {
		t.Errorf("defaults are %+v", s)
	}
	s.Engine.UBatch = 0
	if err := s.Engine.Validate(); !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), "--ubatch-size") {
		t.Errorf("ubatch 0: %v", err)
	}
	s = Default()
	s.Engine.SparseV = math.NaN()
	if err := s.Engine.Validate(); !errors.Is(err, ErrValue) {
		t.Errorf("NaN: %v", err)
	}
}

// TestPlainCache checks that only the cache's settings are reset.
func TestPlainCache(t *testing.T) {
	set := Default()
	two := 2
	set.Engine.CacheTypeK, set.Engine.KVAuto, set.Engine.ExactWindow, set.Engine.AttnMath = "q8_0", 3, &two, "float"
	set.Engine.Threads, set.Engine.MMap, set.Engine.GPULayers = 3, false, &two
	want := Default().Engine
	want.Threads, want.MMap, want.GPULayers = 3, false, &two
	if got := set.Engine.PlainCache(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestValue checks for every setting that set accepts what Value returns.
func TestValue(t *testing.T) {
	for text, settings := range map[string]func(*Settings){
		"defaults": func(*Settings) {},
		"others": func(s *Settings) {
			zero, yes, seed := 0, true, int64(1)<<53-1
			s.Engine.KVPolicy, s.Engine.SWABypass, s.Engine.InnerQ = &zero, &yes, InnerQ{300, 0.25}
			s.Sampling.Seed, s.Server.KeepAlive, s.Server.APIKey = &seed, Forever, []string{"a,b", "c"}
		},
	} {
		want := Default()
		settings(&want)
		var got Settings
		for i := range fields {
			if err := fields[i].set(&got, fields[i].Value(&want)); err != nil {
				t.Errorf("%s: %s: %v", text, fields[i].Name, err)
			}
		}
		for i := range fields {
			a, b := fields[i].Value(&want), fields[i].Value(&got)
			if !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %s is %v, want %v", text, fields[i].Name, b, a)
			}
		}
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		name, text, want string // if want is empty, an error is expected
	}{
		{"server.state_budget", "4GiB", "4GiB"},
		{"server.state_budget", "1.5 GB", "1500000000"},
		{"server.state_budget", "512m", "512MiB"},
		{"server.state_budget", "123", "123"},
		{"server.state_budget", "-1", ""},
		{"server.state_budget", "1e30", ""},
		{"server.state_budget", "NaN", ""},
		{"server.state_budget", "4 parsecs", ""},
		{"server.keep_alive", "5m", "5m"},
		{"server.keep_alive", "90", "1m30s"},
		{"server.keep_alive", "2h", "2h"},
		{"server.keep_alive", "-1m", "-1"},
		{"server.keep_alive", "0", "0s"},
		{"server.keep_alive", "inf", ""},
		{"engine.innerq", "256", "256,0.5"},
		{"engine.innerq", "256, 1", "256,1"},
		{"engine.innerq", "256,0", ""},
		{"engine.innerq", "256,nan", ""},
		{"engine.innerq", "-1", ""},
		{"engine.mmap", "no", "false"},
		{"engine.mmap", "maybe", ""},
		{"engine.ctx_size", "8192", "8192"},
		{"engine.ctx_size", "8k", ""},
		{"engine.ctx_size", "99999999999999999999", ""},
		{"engine.backend", "cuda", "cuda"},
		{"engine.backend", "opencl", ""},
		{"sampling.temperature", "NaN", ""},
	} {
		field, ok := Find(c.name)
		if !ok {
			t.Fatal(c.name)
		}
		s := Default()
		before := field.Value(&s)
		err := field.set(&s, c.text)
		switch {
		case c.want == "" && !errors.Is(err, ErrValue):
			t.Errorf("%s %q: %v, want ErrValue", c.name, c.text, err)
		case c.want == "" && !reflect.DeepEqual(field.Value(&s), before):
			t.Errorf("%s %q changed the value to %v", c.name, c.text, field.Value(&s))
		case c.want != "" && (err != nil || text(field.Value(&s)) != c.want):
			t.Errorf("%s %q = %v, %v, want %s", c.name, c.text, field.Value(&s), err, c.want)
		}
	}
}

// TestOrder runs the command line's parser with values from flag, environment, file
// and default.
func TestOrder(t *testing.T) {
	file := &File{values: map[string]any{"engine.ctx_size": int64(100), "engine.threads": int64(3), "engine.lora": []any{"a,1", "b"}, "engine.auto_asymmetric": false}}
	env := func(name string) (string, bool) {
		text, ok := map[string]string{
			"GODWIT_CTX_SIZE": "200", "GODWIT_KV_CELLS": "300", "TURBO_LAYER_ADAPTIVE": "5", "TURBO_SPARSE_V": "0", "GODWIT_EXACT_SINKS": "",
		}[name]
		return text, ok
	}
	var cli struct {
		Engine
	}
	resolver := kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		value, _, err := file.Lookup(flag.Name, env)
		return value, err
	})
	parser, err := kong.New(&cli, kong.Vars(Vars()), kong.Resolvers(resolver), kong.Exit(func(int) { t.Fatal("exit") }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"--kv-cells=400", "--no-swa-bypass", "--mmap", "-t5"}); err != nil {
		t.Fatal(err)
	}
	e := cli.Engine
	if e.CtxSize != 200 || e.KVCells != 400 || e.Threads != 5 || e.UBatch != 512 || !e.MMap || e.AutoAsymmetric || e.SparseV != 0 {
		t.Errorf("got %+v", e)
	}
	if e.KVPolicy == nil || *e.KVPolicy != 5 || e.SWABypass == nil || *e.SWABypass || e.ExactSinks != nil {
		t.Errorf("policy %v, bypass %v, sinks %v", e.KVPolicy, e.SWABypass, e.ExactSinks)
	}
	if !reflect.DeepEqual(e.LoRA, []string{"a,1", "b"}) {
		t.Errorf("lora %q", e.LoRA)
	}
	if _, err := parser.Parse([]string{"--kv-policy=8"}); err == nil || !strings.Contains(err.Error(), "--kv-policy") {
		t.Errorf("policy 8: %v", err)
	}
}

func TestForkVariables(t *testing.T) {
	for _, c := range []struct{ name, text, setting, want string }{
		{"TURBO_LAYER_ADAPTIVE", "7", "engine.kv_policy", "7"},
		{"TURBO_LAYER_ADAPTIVE", " 5\t", "engine.kv_policy", "5"},
		{"TURBO_LAYER_ADAPTIVE", "9", "engine.kv_policy", "0"},
		{"TURBO_LAYER_ADAPTIVE", "text", "engine.kv_policy", "0"},
		{"TURBO_AUTO_ASYMMETRIC", "0", "engine.auto_asymmetric", "false"},
		{"TURBO_AUTO_ASYMMETRIC", "yes", "engine.auto_asymmetric", "true"},
		{"TURBO_SPARSE_V", "0", "engine.sparse_v", "0"},
		{"TURBO_SPARSE_V", "1", "engine.sparse_v", "1e-06"},
	} {
		file := &File{values: map[string]any{}}
		s, err := file.Settings(func(name string) (string, bool) { return c.text, name == c.name })
		field, _ := Find(c.setting)
		if got := text(field.Value(&s)); err != nil || got != c.want {
			t.Errorf("%s=%s: %s is %s, %v, want %s", c.name, c.text, c.setting, got, err, c.want)
		}
	}
	file := &File{}
	if _, err := file.Settings(func(name string) (string, bool) { return "x", name == "GODWIT_PORT" }); err == nil || !strings.Contains(err.Error(), "$GODWIT_PORT") {
		t.Errorf("a bad variable: %v", err)
	}
}
