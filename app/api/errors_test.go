package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Bodies with one wrong field.
func chat(field string) string { return `{"messages":[{"role":"user","content":"a"}],` + field + `}` }
func text(field string) string { return `{"prompt":"a",` + field + `}` }
func message(field string) string {
	return `{"max_tokens":5,"messages":[{"role":"user","content":"a"}],` + field + `}`
}

func lines(field string) string {
	return `{"model":"m","messages":[{"role":"user","content":"a"}],` + field + `}`
}

// allowed is a choice of some of the tools.
func allowed(fields string) string {
	return `"tools":[` + tool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{` + fields + `}}`
}

const tool = `{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`

// manyKeys is an object with too many keys.
var manyKeys = func() string {
	var b strings.Builder
	for i := range 300000 {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}()

// wrong maps invalid bodies to the field that the error must name.
var wrong = []struct{ path, body, param string }{
	{"/v1/chat/completions", `{}`, "messages"},
	{"/v1/chat/completions", `{"messages":null}`, "messages"},
	{"/v1/chat/completions", `{"messages":[]}`, "messages"},
	{"/v1/chat/completions", `{"messages":"a"}`, "messages"},
	{"/v1/chat/completions", `{"messages":["a"]}`, "messages[0]"},
	{"/v1/chat/completions", `{"messages":[{"content":"a"}]}`, "messages[0].role"},
	{"/v1/chat/completions", `{"messages":[{"role":"robot","content":"a"}]}`, "messages[0].role"},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":5}]}`, "messages[0].content"},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}]}`, "messages[0].content[1].image_url.url"},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]}`, "messages[0].content[0]"},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0].text"},
	{"/v1/chat/completions", `{"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]}`, "messages[0].tool_calls[0].function.name"},
	{"/v1/chat/completions", chat(`"model":5`), "model"},
	{"/v1/chat/completions", chat(`"temperature":"x"`), "temperature"},
	{"/v1/chat/completions", chat(`"temperature":2.1`), "temperature"},
	{"/v1/chat/completions", chat(`"temperature":-1`), "temperature"},
	{"/v1/chat/completions", chat(`"top_p":1.5`), "top_p"},
	{"/v1/chat/completions", chat(`"top_k":1.5`), "top_k"},
	{"/v1/chat/completions", chat(`"min_p":true`), "min_p"},
	{"/v1/chat/completions", chat(`"typical_p":-0.1`), "typical_p"},
	{"/v1/chat/completions", chat(`"seed":"x"`), "seed"},
	{"/v1/chat/completions", chat(`"seed":1.5`), "seed"},
	{"/v1/chat/completions", chat(`"frequency_penalty":3`), "frequency_penalty"},
	{"/v1/chat/completions", chat(`"presence_penalty":[]`), "presence_penalty"},
	{"/v1/chat/completions", chat(`"repeat_penalty":-1`), "repeat_penalty"},
	{"/v1/chat/completions", chat(`"dry_multiplier":-1`), "dry_multiplier"},
	{"/v1/chat/completions", chat(`"xtc_probability":2`), "xtc_probability"},
	{"/v1/chat/completions", chat(`"logit_bias":[1]`), "logit_bias[0]"},
	{"/v1/chat/completions", chat(`"logit_bias":{"a":1}`), "logit_bias.a"},
	{"/v1/chat/completions", chat(`"logit_bias":{"5":101}`), "logit_bias.5"},
	{"/v1/chat/completions", chat(`"stop":5`), "stop"},
	{"/v1/chat/completions", chat(`"stop":["a",5]`), "stop[1]"},
	{"/v1/chat/completions", chat(`"stop":["` + strings.Repeat(`a","`, 70) + `"]`), "stop"},
	{"/v1/chat/completions", chat(`"max_tokens":0`), "max_tokens"},
	{"/v1/chat/completions", chat(`"max_tokens":-5`), "max_tokens"},
	{"/v1/chat/completions", chat(`"max_tokens":"5"`), "max_tokens"},
	{"/v1/chat/completions", chat(`"max_completion_tokens":1.5`), "max_completion_tokens"},
	{"/v1/chat/completions", chat(`"n":0`), "n"},
	{"/v1/chat/completions", chat(`"n":1000`), "n"},
	{"/v1/chat/completions", chat(`"logprobs":3`), "logprobs"},
	{"/v1/chat/completions", chat(`"top_logprobs":3`), "top_logprobs"},
	{"/v1/chat/completions", chat(`"logprobs":true,"top_logprobs":21`), "top_logprobs"},
	{"/v1/chat/completions", chat(`"stream":"yes"`), "stream"},
	{"/v1/chat/completions", chat(`"stream_options":{"include_usage":1}`), "stream_options.include_usage"},
	{"/v1/chat/completions", chat(`"response_format":"json"`), "response_format"},
	{"/v1/chat/completions", chat(`"response_format":{"type":"xml"}`), "response_format.type"},
	{"/v1/chat/completions", chat(`"response_format":{"type":"json_schema"}`), "response_format.json_schema.schema"},
	{"/v1/chat/completions", chat(`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"thing"}}}`), "response_format.json_schema.schema"},
	{"/v1/chat/completions", chat(`"response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":{"not":{}}}}`), "response_format.json_schema.schema"},
	{"/v1/chat/completions", chat(`"grammar":"root ::= ["`), "grammar"},
	{"/v1/chat/completions", chat(`"grammar":"root ::= \"a\"","response_format":{"type":"json_object"}`), "response_format"},
	{"/v1/chat/completions", chat(`"tools":{}`), "tools"},
	{"/v1/chat/completions", chat(`"tools":[{"type":"web"}]`), "tools[0].type"},
	{"/v1/chat/completions", chat(`"tools":[{"type":"function","function":{"name":"a b"}}]`), "tools[0].function.name"},
	{"/v1/chat/completions", chat(`"tools":[{"type":"function","function":{"name":"a","parameters":5}}]`), "tools[0].function.parameters"},
	{"/v1/chat/completions", chat(`"tool_choice":"required"`), "tool_choice"},
	{"/v1/chat/completions", chat(`"tools":[` + tool + `],"tool_choice":"maybe"`), "tool_choice"},
	{"/v1/chat/completions", chat(`"tools":[` + tool + `],"tool_choice":{"type":"function","function":{"name":"g"}}`), "tool_choice"},
	{"/v1/chat/completions", chat(`"tools":[` + tool + `],"tool_choice":{"type":"custom","custom":{"name":"f"}}`), "tool_choice.type"},
	{"/v1/chat/completions", chat(`"tools":[` + tool + `],"tool_choice":{"type":"function"}`), "tool_choice.function"},
	{"/v1/chat/completions", chat(allowed(`"mode":"auto","tools":[]`)), "tool_choice.allowed_tools.tools"},
	{"/v1/chat/completions", chat(allowed(`"mode":"auto"`)), "tool_choice.allowed_tools.tools"},
	{"/v1/chat/completions", chat(allowed(`"mode":"always","tools":[` + tool + `]`)), "tool_choice.allowed_tools.mode"},
	{"/v1/chat/completions", chat(allowed(`"mode":"auto","tools":["f"]`)), "tool_choice.allowed_tools.tools[0]"},
	{"/v1/chat/completions", chat(allowed(`"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]`)), "tool_choice.allowed_tools.tools[0]"},
	{"/v1/chat/completions", chat(`"parallel_tool_calls":"no"`), "parallel_tool_calls"},
	{"/v1/chat/completions", chat(`"functions":[{"name":"f"}]`), "functions"},
	{"/v1/chat/completions", chat(`"chat_template_kwargs":[]`), "chat_template_kwargs"},
	{"/v1/chat/completions", chat(`"reasoning_effort":"much"`), "reasoning_effort"},
	{"/v1/chat/completions", chat(`"cache_prompt":1`), "cache_prompt"},
	{"/v1/chat/completions", chat(`"id_slot":9999`), "id_slot"},
	{"/v1/chat/completions", chat(`"id_slot":900`), "id_slot"},
	{"/v1/chat/completions", chat(`"logit_bias":{"99999999":5}`), "logit_bias"},
	{"/v1/chat/completions", chat(`"logit_bias":[[99999999,5]]`), "logit_bias"},
	{"/v1/chat/completions", chat(`"chat_template_kwargs":{"messages":[]}`), "chat_template_kwargs.messages"},
	{"/v1/chat/completions", chat(`"chat_template_kwargs":{` + strings.Repeat(`"a":1,`, 10) + manyKeys + `}`), "chat_template_kwargs"},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a",` + manyKeys + `}]}`, "messages[0]"},
	{"/v1/chat/completions", chat(`"continue_final_message":true`), "messages"},
	{"/v1/completions", `{"prompt":[99999999]}`, "prompt[0]"},
	{"/v1/completions", `{"prompt":[[1],[1,99999999]]}`, "prompt[1][1]"},
	{"/completion", `{"prompt":["a",99999999]}`, "prompt[1][0]"},
	{"/v1/completions", `{}`, "prompt"},
	{"/v1/completions", `{"prompt":5}`, "prompt"},
	{"/v1/completions", `{"prompt":[]}`, "prompt"},
	{"/v1/completions", `{"prompt":["a",5]}`, "prompt[1]"},
	{"/v1/completions", `{"prompt":[1,"a"]}`, "prompt[1]"},
	{"/v1/completions", `{"prompt":[-1]}`, "prompt[0]"},
	{"/v1/completions", text(`"logprobs":50`), "logprobs"},
	{"/v1/completions", `{"prompt":[1],"suffix":"b"}`, "suffix"},
	{"/v1/completions", text(`"best_of":4`), "best_of"},
	{"/v1/embeddings", `{}`, "input"},
	{"/v1/embeddings", `{"input":[""]}`, "input[0]"},
	{"/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, "encoding_format"},
	{"/v1/embeddings", `{"input":"a","dimensions":7}`, "dimensions"},
	{"/v1/responses", `{}`, "input"},
	{"/v1/responses", `{"input":5}`, "input"},
	{"/v1/responses", `{"input":"a","background":true,"stream":true}`, "background"},
	{"/v1/responses", `{"input":"a","background":true,"store":false}`, "background"},
	{"/v1/responses", `{"input":"a","tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":"ebnf","definition":"a"}}]}`, "tools[0].format.syntax"},
	{"/v1/responses", `{"input":[{"type":"robot"}]}`, "input[0].type"},
	{"/v1/responses", `{"input":"a","conversation":"conv_1"}`, "conversation"},
	{"/v1/responses", `{"input":"a","prompt":{"id":"p"}}`, "prompt"},
	{"/v1/responses", `{"input":[{"type":"item_reference"}]}`, "input[0].id"},
	{"/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`, "input[0].content[0].image_url"},
	{"/v1/responses", `{"input":"a","tools":[{"type":"web_search"}]}`, "tools[0].type"},
	{"/v1/responses", `{"input":"a","max_output_tokens":0}`, "max_output_tokens"},
	{"/v1/responses", `{"input":"a","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]}}`, "tool_choice.tools[0]"},
	{"/v1/messages", `{"messages":[{"role":"user","content":"a"}]}`, "max_tokens"},
	{"/v1/messages", `{"max_tokens":5,"messages":[]}`, "messages"},
	{"/v1/messages", `{"max_tokens":5,"messages":[{"role":"tool","content":"a"}]}`, "messages[0].role"},
	{"/v1/messages", message(`"system":[{"type":"text","text":"a"},{"type":"text"}]`), "system[1].text"},
	{"/v1/messages", message(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`), "tools[0].type"},
	{"/v1/messages", `{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, "messages[0].content[0].source.type"},
	{"/v1/messages", message(`"system":5`), "system"},
	{"/v1/messages", message(`"temperature":"x"`), "temperature"},
	{"/v1/messages", message(`"tools":[{"name":"f","input_schema":5}]`), "tools[0].input_schema"},
	{"/v1/messages", message(`"tool_choice":{"type":"any"}`), "tool_choice"},
	{"/v1/messages", message(`"thinking":{"type":"maybe"}`), "thinking.type"},
	{"/api/chat", `{"messages":[]}`, "model"},
	{"/api/chat", lines(`"format":"xml"`), "format"},
	{"/api/chat", lines(`"options":{"temperature":"x"}`), "options.temperature"},
	{"/api/chat", lines(`"options":{"num_predict":"x"}`), "options.num_predict"},
	{"/api/chat", lines(`"keep_alive":"soon"`), "keep_alive"},
	{"/api/chat", lines(`"think":-1`), "think"},
	{"/api/chat", `{"model":"m","messages":[{"role":"user","content":"a","images":["x"]}]}`, "messages[0].images[0]"},
	{"/api/generate", `{"model":"m","prompt":"a","images":["x"]}`, "images[0]"},
	{"/completion", `{}`, "prompt"},
	{"/completion", text(`"n_predict":-3`), "n_predict"},
	{"/completion", text(`"n_probs":-1`), "n_probs"},
	{"/completion", text(`"json_schema":5`), "json_schema"},
	{"/tokenize", `{}`, "content"},
	{"/detokenize", `{"tokens":[99999999]}`, "tokens[0]"},
	{"/detokenize", `{"tokens":[-1]}`, "tokens[0]"},
	{"/slots/0?action=save", `{"filename":"../x"}`, "filename"},
	{"/slots/0?action=save", `{"filename":""}`, "filename"},
	{"/slots/x?action=erase", `{}`, "id"},
	{"/slots/0?action=burn", `{}`, "action"},
}

// A known field with a wrong type or range gives a 400 that names it, and nothing
// is generated. Unknown fields are ignored.
func TestFields(t *testing.T) {
	v := shared(t)
	for _, c := range wrong {
		r := v.ask("POST", c.path, c.body)
		if r.status != http.StatusBadRequest {
			t.Errorf("%s %.200s: %d, want 400: %.200s", c.path, c.body, r.status, r.body)
			continue
		}
		tree := r.json(t)
		param := at(tree, "error", "param")
		if param == nil {
			param = tree["param"] // Ollama's form
		}
		if param != c.param {
			t.Errorf("%s %.200s: names %v, want %s: %s", c.path, c.body, param, c.param, r.body)
		}
	}
	for _, body := range []string{
		chat(`"max_tokens":1,"unknown":{"a":[1]},"user":"me","metadata":{"a":"b"},"service_tier":"auto"`),
		chat(`"max_tokens":1,"temperature":null,"stop":null,"tools":null,"n":null,"seed":null,"response_format":null,"logit_bias":null`),
		chat(`"max_tokens":1.0,"top_k":-1,"stop":"","tools":[],"tool_choice":"none"`),
	} {
		if r := v.ask("POST", "/v1/chat/completions", body); r.status != 200 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}

// The content of a message may have any form, in every role.
func TestContentForms(t *testing.T) {
	v := shared(t)
	for _, content := range []string{`,"content":"a"`, `,"content":null`, ``, `,"content":[]`, `,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`} {
		for _, role := range []string{"system", "developer", "user", "assistant", "tool"} {
			body := `{"max_tokens":1,"messages":[{"role":"` + role + `"` + content + `},{"role":"user","content":"a"}]}`
			if r := v.ask("POST", "/v1/chat/completions", body); r.status != 200 {
				t.Errorf("%s: %d %s", body, r.status, r.body)
			}
		}
	}
	for _, body := range []string{
		`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"system":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]}`,
		`{"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"t1","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"5"}]},{"type":"text","text":"and?"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
	} {
		if r := v.ask("POST", "/v1/messages", body); r.status != 200 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	for _, body := range []string{
		`{"max_output_tokens":1,"input":[{"role":"developer","content":"a"},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[],"id":"rs_1"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"5"}]}`,
	} {
		if r := v.ask("POST", "/v1/responses", body); r.status != 200 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}

// A prompt that does not fit gives an error with the numbers, never an empty
// answer.
func TestOverflow(t *testing.T) {
	v := shared(t)
	long := strings.Repeat("hello ", 2000)
	for _, c := range []struct {
		path string
		body any
		at   []any
	}{
		{"/v1/chat/completions", object{"messages": user(long)}, []any{"error"}},
		{"/v1/chat/completions", object{"messages": user(long), "stream": true}, []any{"error"}},
		{"/v1/completions", object{"prompt": long}, []any{"error"}},
		{"/v1/responses", object{"input": long}, []any{"error"}},
		{"/v1/messages", object{"messages": user(long), "max_tokens": 5}, []any{"error"}},
		{"/v1/embeddings", object{"input": long}, []any{"error"}},
		{"/completion", object{"prompt": long}, []any{"error"}},
		{"/api/chat", object{"model": "m", "messages": user(long)}, nil},
		{"/api/generate", object{"model": "m", "prompt": long}, nil},
		{"/api/embed", object{"model": "m", "input": long, "truncate": false}, nil},
	} {
		r := v.ask("POST", c.path, c.body)
		e := at(r.json(t), c.at...)
		n, _ := at(e, "n_prompt_tokens").(float64)
		if r.status != 400 || n < 2000 || at(e, "n_ctx") != 1024.0 {
			t.Errorf("%s: %d %s", c.path, r.status, r.body)
		}
		kind, code := at(e, "type"), at(e, "code")
		switch c.path {
		case "/v1/messages":
			if kind != "invalid_request_error" || code != "context_length_exceeded" || !strings.Contains(at(e, "message").(string), "prompt is too long") {
				t.Errorf("%s: %s", c.path, r.body)
			}
		case "/completion":
			if kind != "exceed_context_size_error" || code != 400.0 {
				t.Errorf("%s: %s", c.path, r.body)
			}
		default:
			if kind != "exceed_context_size_error" || code != "context_length_exceeded" {
				t.Errorf("%s: %s", c.path, r.body)
			}
		}
	}
}

// Unknown paths under a dialect's prefix give errors in that dialect's form.
func TestMissing(t *testing.T) {
	v := start(t, nil)
	for path, where := range map[string][]any{
		"/api/nothing": {"error"}, "/api/blobs/x/y": {"error"}, "/api/kvx": {"error"}, "/api/kv": {"error", "message"}, "/api/v0/nothing": {"error", "message"},
		"/v1/messages/nothing": {"error", "message"}, "/v1/nothing": {"error", "message"}, "/slots/0/x": {"error", "message"},
	} {
		r := v.ask("POST", path, object{})
		if text, _ := at(r.json(t), where...).(string); r.status != 404 && path != "/api/kv" || text == "" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		if kind := at(r.json(t), "type"); (kind == "error") != strings.HasPrefix(path, "/v1/messages") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
}

// A server with one model accepts every name, but describes only existing names.
func TestNames(t *testing.T) {
	v := shared(t)
	for _, model := range []any{nil, "", "gpt-4o", "tiny:latest", "a/b:c"} {
		r := v.post("/v1/chat/completions", object{"model": model, "messages": user("a"), "max_tokens": 1})
		if r["model"] != v.model(t) {
			t.Errorf("model %v was answered by %v", model, r["model"])
		}
	}
	name := v.model(t)
	for path, status := range map[string]int{
		"/v1/models/" + name: 200, "/v1/models/gpt-4o": 404, "/api/v0/models/" + name: 200, "/api/v0/models/x/y": 404,
	} {
		if r := v.ask("GET", path, nil); r.status != status {
			t.Errorf("%s: %d, want %d", path, r.status, status)
		}
	}
}
