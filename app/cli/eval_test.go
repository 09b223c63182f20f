package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"godwit/engine/kv"
	"godwit/engine/testmodel"
)

// call runs a command line with its own data folder.
func call(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	w := bufio.NewWriter(&o)
	r := &run{ctx: t.Context(), in: strings.NewReader(""), out: w, err: &e}
	code = r.main(append([]string{"--log-level", "error"}, args...))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return code, o.String(), e.String()
}

// hasKeys checks that a JSON object has the given keys.
func hasKeys(t *testing.T, what, text string, want ...string) map[string]any {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%s: %v in %q", what, err, text)
	}
	for _, k := range want {
		if _, ok := got[k]; !ok {
			t.Errorf("%s: no key %q in %s", what, k, text)
		}
	}
	return got
}

// TestEvalText runs the text measurements through the command line.
func TestEvalText(t *testing.T) {
	t.Setenv("GODWIT_HOME", t.TempDir())
	model := testmodel.Small(t, "llama-hd64")
	base := filepath.Join(t.TempDir(), "base")
	small := []string{model, "-c", "64", "--chunks", "2", "--json"}
	code, out, errs := call(t, slices.Concat([]string{"eval", "perplexity"}, small)...)
	if code != 0 {
		t.Fatalf("perplexity without -f: exit %d, %s", code, errs)
	}
	hasKeys(t, "perplexity", out, "perplexity", "stderr", "chunks", "tokens", "type_k", "type_v")
	if code, out, errs = call(t, slices.Concat([]string{"eval", "kld"}, small, []string{"--save-base", base})...); code != 0 {
		t.Fatalf("kld --save-base: exit %d, %s", code, errs)
	}
	hasKeys(t, "kld --save-base", out, "perplexity")
	types := []string{"-ctk", "q8_0", "-ctv", "q4_0"}
	_, live, _ := call(t, slices.Concat([]string{"eval", "kld"}, small, types)...)
	code, out, errs = call(t, slices.Concat([]string{"eval", "kld"}, small, types, []string{"--base", base})...)
	if code != 0 || out != live {
		t.Errorf("kld --base: exit %d, %s\n%s, live %s", code, errs, out, live)
	}
	hasKeys(t, "kld", out, "kld_mean", "kld_median", "kld_p99", "kld_p999", "kld_max", "top1", "delta_p_rms", "perplexity", "type_k", "type_v")
	_, out, _ = call(t, slices.Concat([]string{"eval", "kld"}, small, []string{"-ctk", "f16,q8_0", "-ctv", "q8_0"})...)
	var list []map[string]any
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 {
		t.Errorf("two pairs: %v, %s", err, out)
	}
	for _, task := range []string{"perplexity", "kld", "agree"} {
		args := slices.Concat([]string{"eval", task}, small, []string{"--pairs", "q8_0/q4_0,bf16"})
		if task == "agree" {
			args = []string{"eval", task, model, "--tokens", "16", "--json", "--pairs", "q8_0/q4_0,bf16"}
		}
		_, out, errs = call(t, args...)
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 || list[0]["type_v"] != "q4_0" || list[1]["type_k"] != "bf16" {
			t.Errorf("%s --pairs: %v, %s%s", task, err, out, errs)
		}
	}
	other := testmodel.Small(t, "qwen2-hd64")
	short := filepath.Join(t.TempDir(), "short.txt")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "another model", []string{"kld", other, "-c", "64", "--chunks", "2", "--base", base}},
		{1, "too short", []string{"perplexity", model, "-f", short}},
		{1, "too short", []string{"agree", model, "-f", short}},
		{1, "with another text", []string{"kld", model, "-c", "64", "--chunks", "2", "--base", base, "--text", "korean"}},
		{2, "cannot be used together", []string{"kld", model, "--base", base, "--save-base", base}},
		{2, "window is too short", []string{"perplexity", model, "-c", "3"}},
		{2, "--chunks", []string{"kld", model, "--chunks", "-1"}},
		{2, "--every", []string{"kld", model, "--every", "0"}},
		{2, "--tokens", []string{"agree", model, "--tokens", "0"}},
		{2, "--distances", []string{"copy", model, "--distances", "-1"}},
		{2, "--lengths", []string{"needle", model, "--lengths", "-1"}},
		{2, "not between 0 and 1", []string{"needle", model, "--depths", "1.5"}},
		{2, "the limit is", []string{"needle", model, "--depths", "0,0,0,0,0,0,0,0,0"}},
		{2, "--behind", []string{"arith", model, "--behind", "-1"}},
		{2, "--depths", []string{"speed", model, "-d", "-1"}},
		{2, "--kv-auto chooses", []string{"kld", model, "--kv-auto", "3", "-ctk", "q8_0"}},
		{2, "nothing to recommend", []string{"recommend", model, "--kv-auto", "3"}},
		{2, "no text", []string{"perplexity", model, "--text", "latin"}},
		{2, "unknown cache type", []string{"copy", model, "--pairs", "q8_0/nothing"}},
	} {
		code, _, errs := call(t, append([]string{"eval"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d, want %d and %q: %s", c.args, code, c.code, c.says, errs)
		}
	}
}

// TestEvalLab runs the tasks that generate text, and the whole lab, on a tiny
// model.
func TestEvalLab(t *testing.T) {
	home := t.TempDir()
	t.Setenv("GODWIT_HOME", home)
	model := testmodel.Small(t, "llama-hd64")
	common := []string{model, "--quick", "--json", "--pairs", "q8_0/q4_0"}
	for task, want := range map[string][]string{
		"copy": {"rate", "stderr", "distances", "kinds"}, "needle": {"rate", "grid"}, "arith": {"rate", "repeatable"},
		"turns": {"repeated", "agreement", "turns"}, "speed": {"depths", "bytes", "bytes_planned"},
	} {
		code, out, errs := call(t, slices.Concat([]string{"eval", task}, common)...)
		if code != 0 {
			t.Fatalf("%s: exit %d, %s", task, code, errs)
		}
		got := hasKeys(t, task, out, append(want, "type_k", "type_v")...)
		if got["type_k"] != "q8_0" || got["type_v"] != "q4_0" {
			t.Errorf("%s: of %v and %v", task, got["type_k"], got["type_v"])
		}
	}
	dir := filepath.Join(home, "report")
	code, out, errs := call(t, slices.Concat([]string{"eval", "all"}, common, []string{"--out", dir})...)
	if code != 0 {
		t.Fatalf("all: exit %d, %s", code, errs)
	}
	hasKeys(t, "all", out, "model", "identity", "machine", "command", "cells")
	for _, name := range []string{"report.json", "report.csv", "report.html"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	code, out, errs = call(t, "eval", "recommend", model, "--quick", "-c", "512", "--json")
	if code != 0 {
		t.Fatalf("recommend: exit %d, %s", code, errs)
	}
	rec := hasKeys(t, "recommend", out, "found", "best", "bytes", "limits", "tried")
	if tried, ok := rec["tried"].([]any); !ok || len(tried) != len(kv.Pairs()) {
		t.Errorf("recommend tried %v", rec["tried"])
	}
	left, err := filepath.Glob(filepath.Join(home, "data", "quality", "*", "base-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if code, _, errs := call(t, "eval", "recommend", model, "--quick", "-c", "512", "--budget", "1KiB"); code != 1 || !strings.Contains(errs, "no pair fits") {
		t.Errorf("a budget of 1 KiB: exit %d, %s", code, errs)
	}
}
