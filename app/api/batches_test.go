package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A batch is answered in order, gives the reason for invalid requests, and can be
// cancelled and deleted.
func TestBatches(t *testing.T) {
	v := startModel(t, nil)
	message := func(id string, tokens int) object {
		return object{"custom_id": id, "params": object{"model": "x", "max_tokens": tokens, "messages": user("a")}}
	}
	for _, bad := range []object{
		{},
		{"requests": []object{}},
		{"requests": []object{message("a b", 2)}},
		{"requests": []object{message("a", 2), message("a", 2)}},
		{"requests": []object{{"custom_id": "a"}}},
	} {
		if r := v.ask("POST", "/v1/messages/batches", bad); r.status != 400 || at(r.json(t), "type") != "error" {
			t.Errorf("%v: %d %s", bad, r.status, r.body)
		}
	}
	b := v.ask("POST", "/v1/messages/batches", object{"requests": []object{message("one", 2), {"custom_id": "two", "params": object{"messages": 3}}, message("three", 3)}}).json(t)
	path := "/v1/messages/batches/" + b["id"].(string)
	wait(t, "the batch", func() bool { return v.ask("GET", path, nil).json(t)["processing_status"] == "ended" })
	b = v.ask("GET", path, nil).json(t)
	if at(b, "request_counts", "succeeded") != 2.0 || at(b, "request_counts", "errored") != 1.0 || at(b, "request_counts", "processing") != 0.0 {
		t.Errorf("counts: %v", b)
	}
	results := v.ask("GET", strings.TrimPrefix(b["results_url"].(string), v.url), nil)
	lines := bytes.Split(bytes.TrimSpace(results.body), []byte("\n"))
	for i, want := range []string{"one succeeded", "two errored", "three succeeded"} {
		var l object
		if i >= len(lines) || json.Unmarshal(lines[i], &l) != nil {
			t.Fatalf("results: %s", results.body)
		}
		if got := fmt.Sprint(l["custom_id"], " ", at(l, "result", "type")); got != want {
			t.Errorf("line %d: %s, want %s", i, lines[i], want)
		}
	}
	long := v.ask("POST", "/v1/messages/batches", object{"requests": []object{message("long", 100000), message("never", 2)}}).json(t)
	other := "/v1/messages/batches/" + long["id"].(string)
	if r := v.ask("GET", other+"/results", nil); r.status != 409 {
		t.Errorf("results of a running batch: %d %s", r.status, r.body)
	}
	if r := v.ask("DELETE", other, nil); r.status != 409 {
		t.Errorf("delete of a running batch: %d %s", r.status, r.body)
	}
	if r := v.ask("POST", other+"/cancel", nil); r.status != 200 {
		t.Errorf("cancel: %d %s", r.status, r.body)
	}
	wait(t, "the cancelled batch", func() bool { return v.ask("GET", other, nil).json(t)["processing_status"] == "ended" })
	list := v.ask("GET", "/v1/messages/batches?limit=1", nil).json(t)
	if at(list, "data", 0, "id") != long["id"] || list["has_more"] != true {
		t.Errorf("list: %v", list)
	}
	if list = v.ask("GET", "/v1/messages/batches?after_id="+long["id"].(string), nil).json(t); at(list, "data", 0, "id") != b["id"] || list["has_more"] != false {
		t.Errorf("the next page: %v", list)
	}
	if r := v.ask("DELETE", path, nil).json(t); r["type"] != "message_batch_deleted" {
		t.Errorf("delete: %v", r)
	}
	if r := v.ask("GET", path, nil); r.status != 404 {
		t.Errorf("a dropped batch: %d %s", r.status, r.body)
	}
}

// A batch belongs to the API key that created it.
func TestBatchKeys(t *testing.T) {
	v := startModel(t, func(o *setup) { o.Settings.Server.APIKey = []string{"mine", "other"} })
	mine, other := withHeader("X-Api-Key", "mine"), withHeader("X-Api-Key", "other")
	one := object{"custom_id": "one", "params": object{"model": "x", "max_tokens": 2, "messages": user("a")}}
	b := v.ask("POST", "/v1/messages/batches", object{"requests": []object{one}}, mine).json(t)
	path := "/v1/messages/batches/" + b["id"].(string)
	wait(t, "the batch", func() bool { return v.ask("GET", path, nil, mine).json(t)["processing_status"] == "ended" })
	for _, c := range [][2]string{{"GET", path}, {"GET", path + "/results"}, {"POST", path + "/cancel"}, {"DELETE", path}} {
		if r := v.ask(c[0], c[1], nil, other); r.status != 404 {
			t.Errorf("%s %s with another key: %d %s", c[0], c[1], r.status, r.body)
		}
	}
	if list := v.ask("GET", "/v1/messages/batches", nil, other).json(t); len(list["data"].([]any)) != 0 {
		t.Errorf("another key lists %v", list)
	}
	if r := v.ask("GET", path+"/results", nil, mine); r.status != 200 {
		t.Errorf("results: %d %s", r.status, r.body)
	}
}

// Anthropic's client gets the list of models in its own form.
func TestAnthropicModels(t *testing.T) {
	v := shared(t)
	version := func(r *http.Request) { r.Header.Set("Anthropic-Version", "2023-06-01") }
	list := v.ask("GET", "/v1/models?limit=5", nil, version).json(t)
	id, _ := at(list, "data", 0, "id").(string)
	if at(list, "data", 0, "type") != "model" || id == "" || list["first_id"] != id || list["has_more"] != false || list["object"] != nil {
		t.Errorf("the list: %v", list)
	}
	if m := v.ask("GET", "/v1/models/"+id, nil, version).json(t); m["type"] != "model" || m["display_name"] == "" || m["created_at"] == nil {
		t.Errorf("the model: %v", m)
	}
	if r := v.ask("GET", "/v1/models?limit=0", nil, version); r.status != 400 {
		t.Errorf("limit 0: %d %s", r.status, r.body)
	}
}
