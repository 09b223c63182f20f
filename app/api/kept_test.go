package api

import (
	"net/http"
	"strings"
	"testing"
)

// A streamed response is kept, continued, named by its items, cut at a stop string and
// left out of the memory as one that is sent whole.
func TestResponsesStreamed(t *testing.T) {
	v := recite(t, "Qwen-Qwen2.5-7B-Instruct", chatML...)
	for _, stream := range []bool{false, true} {
		ask := func(text string, body object) map[string]any {
			t.Helper()
			v.says(text)
			body["stream"] = stream
			if !stream {
				return v.post("/v1/responses", body)
			}
			list := v.events("/v1/responses", body)
			last := list[len(list)-1]
			if last.name != "response.completed" {
				t.Fatalf("the last event is %s", last.name)
			}
			out, _ := at(last.json(t), "response").(map[string]any)
			if id := at(list[0].json(t), "response", "id"); id != out["id"] {
				t.Errorf("the stream begins with id %v and ends with %v", id, out["id"])
			}
			return out
		}
		first := ask("First answer", object{"input": "Xq7one"})
		id, item := str(first, "id"), str(first, "output", 0, "id")
		if first["store"] != true || id == "" || item == "" {
			t.Errorf("stream %v: %v", stream, first)
		}
		if got := v.ask(http.MethodGet, "/v1/responses/"+id, nil).json(t); str(got, "output", 0, "content", 0, "text") != "First answer" {
			t.Errorf("stream %v: kept %v", stream, got)
		}
		var prompts []string
		for what, body := range map[string]object{
			"previous_response_id": {"previous_response_id": id, "input": "Xq7two"},
			"item_reference":       {"input": []object{{"role": "user", "content": "Xq7one"}, {"type": "item_reference", "id": item}, {"role": "user", "content": "Xq7two"}}},
		} {
			second := ask("Second answer", body)
			prompt := v.read()
			if !strings.Contains(prompt, "Xq7one") || !strings.Contains(prompt, "First answer") || !strings.Contains(prompt, "Xq7two") {
				t.Errorf("%s, stream %v: the prompt is %q", what, stream, prompt)
			}
			prompts = append(prompts, prompt)
			if what == "previous_response_id" && second["previous_response_id"] != id {
				t.Errorf("%s, stream %v: %v", what, stream, second["previous_response_id"])
			}
		}
		if prompts[0] != prompts[1] {
			t.Errorf("stream %v: the prompts differ: %q", stream, prompts)
		}
		stopped := ask("One two three four", object{"input": "a", "stop": []string{"three"}})
		if got := str(stopped, "output", 0, "content", 0, "text"); got != "One two " || stopped["status"] != "completed" {
			t.Errorf("stop, stream %v: %q, status %v", stream, got, stopped["status"])
		}
		quiet := ask("Secret", object{"input": "a", "store": false})
		if r := v.ask(http.MethodGet, "/v1/responses/"+str(quiet, "id"), nil); r.status != http.StatusNotFound || quiet["store"] != false {
			t.Errorf("not stored, stream %v: %d, store %v", stream, r.status, quiet["store"])
		}
		for _, body := range []object{
			{"input": "a", "previous_response_id": str(quiet, "id"), "stream": stream},
			{"input": []object{{"type": "item_reference", "id": "msg_none"}}, "stream": stream},
		} {
			if r := v.ask(http.MethodPost, "/v1/responses", body); r.status != http.StatusNotFound {
				t.Errorf("%v: %d %s", body, r.status, r.body)
			}
		}
	}
}
