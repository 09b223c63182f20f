package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit/app/api/wire"
)

// LM Studio's first API responds like OpenAI's plus stats, whole and streamed.
func TestStudioStats(t *testing.T) {
	v := shared(t)
	for path, c := range map[string]struct {
		plain string
		body  object
		text  []any
	}{
		"/api/v0/chat/completions": {"/v1/chat/completions", object{"messages": user(question), "max_tokens": 6}, []any{"choices", 0, "message", "content"}},
		"/api/v0/completions":      {"/v1/completions", object{"prompt": question, "max_tokens": 6, "ignore_eos": true}, []any{"choices", 0, "text"}},
	} {
		r := v.post(path, c.body)
		if want := at(v.post(c.plain, c.body), c.text...); at(r, c.text...) != want || want == nil {
			t.Errorf("%s: %v, want %v", path, at(r, c.text...), want)
		}
		check := func(r map[string]any) {
			t.Helper()
			if at(r, "stats", "stop_reason") != "maxPredictedTokensReached" || at(r, "stats", "tokens_per_second") == 0.0 ||
				at(r, "model_info", "context_length") != 1024.0 || at(r, "model_info", "arch") != "llama" || at(r, "runtime", "name") != "godwit" {
				t.Errorf("%s: %v", path, r)
			}
		}
		check(r)
		c.body["stream"] = true
		list := v.events(path, c.body)
		if list[len(list)-1].data != "[DONE]" {
			t.Errorf("%s ends with %v", path, list[len(list)-1])
		}
		check(list[len(list)-2].json(t))
		for _, e := range list[:len(list)-2] {
			if e.json(t)["stats"] != nil {
				t.Errorf("%s has stats before the end", path)
			}
		}
	}
	if r := v.post("/api/v0/embeddings", object{"input": "a"}); at(r, "data", 0, "embedding", 0) == nil {
		t.Errorf("embeddings: %v", r)
	}
}

// A conversation in LM Studio's newer API can continue from each of its answers.
func TestStudioChat(t *testing.T) {
	v := shared(t)
	first := v.post("/api/v1/chat", object{"input": question, "system_prompt": "Be brief.", "max_output_tokens": 8})
	text, _ := at(first, "output", 0, "content").(string)
	id, _ := first["response_id"].(string)
	if at(first, "output", 0, "type") != "message" || text == "" || !strings.HasPrefix(id, "resp_") || at(first, "stats", "total_output_tokens") != 8.0 {
		t.Fatalf("first: %v", first)
	}
	messages := []object{{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}}
	want := at(v.post("/v1/chat/completions", object{"messages": messages, "max_tokens": 8}), "choices", 0, "message", "content")
	if text != want {
		t.Errorf("first: %q, want %q", text, want)
	}
	messages = append(messages, object{"role": "assistant", "content": text}, object{"role": "user", "content": "And one more?"})
	want = at(v.post("/v1/chat/completions", object{"messages": messages, "max_tokens": 8}), "choices", 0, "message", "content")
	for range 2 { // twice from the same answer
		next := v.post("/api/v1/chat", object{"input": []object{{"type": "text", "content": "And one more?"}}, "previous_response_id": id, "max_output_tokens": 8})
		if at(next, "output", 0, "content") != want || next["response_id"] == id {
			t.Errorf("next: %v, want %q", next, want)
		}
	}
	list := v.events("/api/v1/chat", object{"input": question, "system_prompt": "Be brief.", "max_output_tokens": 8, "stream": true})
	var names []string
	got := ""
	for _, e := range list {
		m := e.json(t)
		if m["type"] != e.name {
			t.Errorf("event %s has the type %v", e.name, m["type"])
		}
		if len(names) == 0 || names[len(names)-1] != e.name {
			names = append(names, e.name)
		}
		if e.name == "message.delta" {
			got += m["content"].(string)
		}
	}
	if order := strings.Join(names, " "); !strings.HasPrefix(order, "chat.start prompt_processing.start prompt_processing.progress") ||
		!strings.HasSuffix(order, "prompt_processing.end message.start message.delta message.end chat.end") || got != text {
		t.Errorf("events %s with %q, want %q", order, got, text)
	}
	if end := list[len(list)-1].json(t); at(end, "result", "output", 0, "content") != text || at(end, "result", "response_id") == nil {
		t.Errorf("the end: %v", end)
	}
	if r := v.post("/api/v1/chat", object{"input": "a", "store": false, "max_output_tokens": 1}); r["response_id"] != nil {
		t.Errorf("stored: %v", r)
	}
	for _, body := range []object{
		{"input": "a", "previous_response_id": "resp_nothing"},
		{"input": []object{{"type": "image", "data_url": "data:"}}},
		{"input": "a", "integrations": []string{"mcp/x"}},
		{},
		{"input": 1},
		{"input": "a", "reasoning": "much"},
	} {
		if r := v.ask("POST", "/api/v1/chat", body); r.status != 400 {
			t.Errorf("%v: %d %s", body, r.status, r.body)
		}
	}
}

// Models load with a configuration, unload, and are listed with their properties.
func TestStudioModels(t *testing.T) {
	v := start(t, func(o *setup) {
		o.Library = library(t)
		o.Settings.Server.KeepAlive = -1
		o.Engine.Context, o.Engine.Cells = 256, 256
	})
	list := func() any { return v.ask("GET", "/api/v1/models", nil).json(t)["models"] }
	m := at(list(), 0)
	if at(m, "key") != "tiny-chat" || at(m, "type") != "llm" || at(m, "format") != "gguf" || at(m, "max_context_length") != 8192.0 ||
		at(m, "quantization", "name") == "" || at(m, "loaded_instances", 0) != nil || at(m, "params_string") != "135M" {
		t.Errorf("list: %v", m)
	}
	r := v.post("/api/v1/models/load", object{"model": "tiny-chat", "context_length": 512, "echo_load_config": true})
	if r["status"] != "loaded" || r["instance_id"] != "tiny-chat" || at(r, "load_config", "context_length") != 512.0 || r["load_time_seconds"] == 0.0 {
		t.Errorf("load: %v", r)
	}
	if r := v.post("/api/v1/models/load", object{"model": "tiny-chat"}); r["load_config"] != nil {
		t.Errorf("load without an echo: %v", r)
	}
	if got := at(list(), 0, "loaded_instances", 0, "config", "context_length"); got != 512.0 {
		t.Errorf("loaded with %v", got)
	}
	if r := v.post("/api/v1/models/unload", object{"instance_id": "tiny-chat"}); r["instance_id"] != "tiny-chat" {
		t.Errorf("unload: %v", r)
	}
	if got := at(list(), 0, "loaded_instances", 0); got != nil {
		t.Errorf("after the unload: %v", got)
	}
	if r := v.post("/api/v1/models/download", object{"model": "tiny-chat"}); r["status"] != "already_downloaded" || r["job_id"] != nil {
		t.Errorf("download of what is there: %v", r)
	}
	job := v.post("/api/v1/models/download", object{"model": "https://huggingface.co/nobody/nothing", "quantization": "Q4_K_M"})
	id, _ := job["job_id"].(string)
	if job["status"] != "downloading" || id == "" || job["started_at"] == nil {
		t.Fatalf("download: %v", job)
	}
	wait(t, "the failure", func() bool {
		return v.ask("GET", "/api/v1/models/download/status/"+id, nil).json(t)["status"] == "failed"
	})
	if all := v.ask("GET", "/api/v1/models/download/status", nil).json(t); at(all, "failed", 0, "job_id") != id || at(all, "downloading", 0) != nil {
		t.Errorf("all downloads: %v", all)
	}
	for path, body := range map[string]object{
		"/api/v1/models/load": {"model": "nope"}, "/api/v1/models/unload": {"instance_id": "nope"},
	} {
		if r := v.ask("POST", path, body); r.status != 404 {
			t.Errorf("%s of nothing: %d", path, r.status)
		}
	}
	if r := v.ask("GET", "/api/v1/models/download/status/job_x", nil); r.status != 404 {
		t.Errorf("no download: %d", r.status)
	}
}

// The list of downloads is limited, and running ones are never forgotten.
func TestDownloadsBounded(t *testing.T) {
	var d downloads
	running := &wire.Download{ID: "r", Name: "r", Status: "downloading"}
	if err := d.begin(running); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxDownloads {
		job := &wire.Download{ID: fmt.Sprint(i), Name: fmt.Sprint(i), Status: "downloading", Started: time.Now()}
		if err := d.begin(job); err != nil {
			t.Fatal(err)
		}
		job.Status = "failed"
	}
	if len(d.list) != maxDownloads || d.list[0] != running {
		t.Errorf("%d downloads, the first is %v", len(d.list), d.list[0])
	}
	if err := d.begin(&wire.Download{Name: "R", Status: "downloading"}); err == nil {
		t.Error("the same model is downloaded twice")
	}
}
