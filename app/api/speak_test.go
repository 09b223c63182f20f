package api

import "encoding/json"

// turn is a message in a conversation. The role call is a call of weather by the
// assistant, and the role result is the tool's result.
type turn struct{ role, text string }

// add adds the fields for effort and template to a body.
func (a asked) add(o object, effort, template string) {
	if a.effort != "" && effort != "" {
		o[effort] = a.effort
	}
	if a.template != "" {
		o[template] = a.template
	}
}

// list returns the conversation.
func (a asked) list() []turn {
	if a.turns == nil {
		return []turn{{"user", question}}
	}
	return a.turns
}

const (
	callID    = "call00001"
	romeInput = `{"city":"Rome"}`
)

// chatTurns is the conversation in the form of chat completions and of Ollama.
func (a asked) chatTurns() (out []object) {
	for _, m := range a.list() {
		switch m.role {
		case "call":
			out = append(out, object{"role": "assistant", "content": m.text, "tool_calls": []object{{
				"id": callID, "type": "function", "function": object{"name": "weather", "arguments": json.RawMessage(romeInput)},
			}}})
		case "result":
			out = append(out, object{"role": "tool", "tool_call_id": callID, "content": m.text})
		default:
			out = append(out, object{"role": m.role, "content": m.text})
		}
	}
	return out
}

// items is the conversation in the form of the responses API.
func (a asked) items() any {
	if a.turns == nil {
		return question
	}
	var out []object
	for _, m := range a.turns {
		switch m.role {
		case "call":
			out = append(out, object{"type": "function_call", "call_id": callID, "name": "weather", "arguments": romeInput})
		case "result":
			out = append(out, object{"type": "function_call_output", "call_id": callID, "output": m.text})
		default:
			out = append(out, object{"role": m.role, "content": m.text})
		}
	}
	return out
}

// blocks is the conversation in Anthropic's form.
func (a asked) blocks() (out []object) {
	for _, m := range a.list() {
		switch m.role {
		case "call":
			out = append(out, object{"role": "assistant", "content": []object{{"type": "tool_use", "id": callID, "name": "weather", "input": json.RawMessage(romeInput)}}})
		case "result":
			out = append(out, object{"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": callID, "content": m.text}}})
		default:
			out = append(out, object{"role": m.role, "content": m.text})
		}
	}
	return out
}

// generateDialect is Ollama's endpoint for a prompt.
func generateDialect() dialect {
	chat := ollamaDialect()
	part := func(_ string, v map[string]any, s *said) {
		s.text += str(v, "response")
		s.thinking += str(v, "thinking")
	}
	return dialect{
		path: "/api/generate",
		body: func(a asked) object {
			o := chat.body(a)
			delete(o, "messages")
			o["prompt"] = question
			return o
		},
		whole: func(v map[string]any) (s said) {
			part("", v, &s)
			return s
		},
		part: part,
	}
}

// studioDialect is LM Studio's endpoint with stored conversations.
func studioDialect() dialect {
	whole := func(v map[string]any) (s said) {
		list, _ := v["output"].([]any)
		for _, item := range list {
			if str(item, "type") == "reasoning" {
				s.thinking += str(item, "content")
			} else {
				s.text += str(item, "content")
			}
		}
		return s
	}
	return dialect{
		path: "/api/v1/chat",
		body: func(a asked) object {
			o := object{"input": question, "max_output_tokens": a.tokens, "temperature": 0}
			a.add(o, "reasoning", "chat_template")
			if a.budget != nil {
				o["thinking_budget_tokens"] = *a.budget
			}
			if a.think != nil && !*a.think {
				o["reasoning"] = "off"
			}
			return o
		},
		whole: whole,
		part: func(name string, v map[string]any, s *said) {
			switch name {
			case "message.delta":
				s.text += str(v, "content")
			case "reasoning.delta":
				s.thinking += str(v, "content")
			case "chat.end":
				if w := whole(v["result"].(map[string]any)); w != *s {
					s.finish = "the pieces are not the whole"
				}
			}
		},
	}
}

// speaker is a dialect with the features that it supports.
type speaker struct {
	name string
	dialect
	takes []string
}

// speakers are all endpoints with conversations.
func speakers() []speaker {
	all := []string{"form", "any", "grammar", "tools", "forced", "strict", "think", "budget", "effort", "template", "turns"}
	at := func(path string, d dialect) dialect {
		d.path = path
		return d
	}
	return []speaker{
		{"chat", chatDialect(), all},
		{"llama-server", at("/chat/completions", chatDialect()), all},
		{"LM Studio", at("/api/v0/chat/completions", chatDialect()), all},
		{"responses", responsesDialect(), []string{"form", "any", "tools", "forced", "strict", "think", "budget", "effort", "template", "turns"}},
		{"messages", anthropicDialect(), []string{"form", "tools", "forced", "strict", "think", "budget", "effort", "template", "turns"}},
		{"Ollama", ollamaDialect(), []string{"form", "any", "tools", "think", "budget", "effort", "template", "turns"}},
		{"Ollama generate", generateDialect(), []string{"form", "any", "think", "budget", "effort", "template"}},
		{"LM Studio chat", studioDialect(), []string{"think", "budget", "effort", "template"}},
	}
}

// wants returns the features that a request needs.
func (a asked) wants() (list []string) {
	for what, is := range map[string]bool{
		"form": a.form != nil, "any": a.any, "grammar": a.grammar != "", "tools": a.tools, "forced": a.forced, "strict": a.strict,
		"think": a.think != nil, "budget": a.budget != nil, "effort": a.effort != "", "template": a.template != "", "turns": a.turns != nil,
	} {
		if is {
			list = append(list, what)
		}
	}
	return list
}
