package api

import (
	"encoding/json"
	"strings"
	"testing"
)

// function returns a tool in OpenAI's form.
func function(name string) object {
	return object{"type": "function", "function": object{"name": name, "parameters": object{
		"type": "object", "properties": object{"city": object{"type": "string", "maxLength": 12}},
		"required": []string{"city"}, "additionalProperties": false,
	}}}
}

// pick returns a choice of a function, in the form of chat completions.
func pick(name string) object { return object{"type": "function", "function": object{"name": name}} }

// The model does not see tools that a choice leaves out.
func TestAllowedTools(t *testing.T) {
	v := shared(t)
	tools := []object{function("weather"), function("forecast"), function("distance")}
	for _, c := range []struct {
		choice any
		want   string
	}{
		{nil, "weather forecast distance"},
		{"auto", "weather forecast distance"},
		{"none", ""},
		{object{"type": "allowed_tools", "allowed_tools": object{"mode": "auto", "tools": []object{pick("distance"), pick("weather")}}}, "weather distance"},
		{object{"type": "allowed_tools", "mode": "auto", "tools": []object{{"type": "function", "name": "forecast"}}}, "forecast"},
	} {
		prompt, _ := v.post("/apply-template", object{"messages": user("How far is it?"), "tools": tools, "tool_choice": c.choice})["prompt"].(string)
		var got []string
		for _, tool := range tools {
			if name := tool["function"].(object)["name"].(string); strings.Contains(prompt, name) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("choice %v: the model sees %q, want %s", c.choice, got, c.want)
		}
	}
}

// A choice that requires a call gets one, to an allowed tool and with arguments
// that match the schema, in every dialect and in streams.
func TestForcedCalls(t *testing.T) {
	v := shared(t)
	tools := []object{function("weather"), function("forecast"), function("distance")}
	check := func(what string, names []string, name, args string) {
		t.Helper()
		var got map[string]string
		if err := json.Unmarshal([]byte(args), &got); err != nil || len(got) != 1 || len(got["city"]) > 4*12 {
			t.Errorf("%s: arguments %q, %v", what, args, err)
		}
		for _, n := range names {
			if n == name {
				return
			}
		}
		t.Errorf("%s: %q was called, want one of %q", what, name, names)
	}
	all := []string{"weather", "forecast", "distance"}
	cases := []struct {
		what   string
		choice any
		names  []string
	}{
		{"required", "required", all},
		{"named", pick("forecast"), []string{"forecast"}},
		{"allowed", object{"type": "allowed_tools", "allowed_tools": object{"mode": "required", "tools": []object{pick("distance")}}}, []string{"distance"}},
	}
	if testing.Short() {
		cases = cases[2:]
	}
	for _, c := range cases {
		ask := object{"messages": user("Is it raining in Oslo?"), "tools": tools, "tool_choice": c.choice}
		if c.what != "named" { // only named calls end by themselves with this model
			ask["parallel_tool_calls"] = false
		}
		choice := at(v.post("/v1/chat/completions", ask), "choices", 0)
		call := at(choice, "message", "tool_calls", 0, "function")
		name, _ := at(call, "name").(string)
		args, _ := at(call, "arguments").(string)
		check(c.what, c.names, name, args)
		if at(choice, "finish_reason") != "tool_calls" || at(choice, "message", "tool_calls", 1) != nil || at(choice, "message", "content") != nil {
			t.Errorf("%s: %v", c.what, choice)
		}
		ask["stream"] = true
		name, args = "", ""
		for _, e := range v.events("/v1/chat/completions", ask) {
			if e.data == "[DONE]" {
				continue
			}
			if d := at(e.json(t), "choices", 0, "delta", "tool_calls", 0); d != nil {
				n, _ := at(d, "function", "name").(string)
				a, _ := at(d, "function", "arguments").(string)
				name, args = name+n, args+a
			}
		}
		check(c.what+", streamed", c.names, name, args)
	}
	r := v.post("/v1/messages", object{
		"messages": user("Is it raining in Oslo?"), "max_tokens": 200, "tool_choice": object{"type": "tool", "name": "weather"},
		"tools": []object{{"name": "weather", "input_schema": function("")["function"].(object)["parameters"]}},
	})
	input, _ := json.Marshal(at(r, "content", 0, "input"))
	name, _ := at(r, "content", 0, "name").(string)
	check("Anthropic", []string{"weather"}, name, string(input))
	bare := function("weather")["function"].(object)
	bare["type"] = "function"
	r = v.post("/v1/responses", object{"input": "Is it raining in Oslo?", "tools": []object{bare}, "tool_choice": "required", "parallel_tool_calls": false})
	name, _ = at(r, "output", 0, "name").(string)
	args, _ := at(r, "output", 0, "arguments").(string)
	check("responses", []string{"weather"}, name, args)
}

// Infilling needs tokens that this model's vocabulary does not have, and every
// dialect says so.
func TestNoGap(t *testing.T) {
	v := shared(t)
	for path, body := range map[string]object{
		"/infill":         {"input_prefix": "a", "input_suffix": "b"},
		"/v1/completions": {"prompt": "a", "suffix": "b"},
		"/api/generate":   {"model": "m", "prompt": "a", "suffix": "b"},
	} {
		if r := v.ask("POST", path, body); r.status != 501 || !strings.Contains(string(r.body), "not_supported_error") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
