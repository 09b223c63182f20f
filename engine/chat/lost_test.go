package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"godwit/engine/chat/jinja"
)

// Texts of the conversations in these tests.
const (
	saidFirst  = "Xq8first"
	saidSecond = "Xq8second"
	saidUser   = "Xq8user"
	saidAnswer = "Xq8answer"
	saidResult = "Xq8result"
)

// oddTurns are conversations that template authors did not expect.
func oddTurns() map[string]string {
	say := func(role, text string) string { return fmt.Sprintf(`{"role": %q, "content": %q}`, role, text) }
	user, system, answer := say("user", saidUser), say("system", saidFirst), say("assistant", saidAnswer)
	result := `{"role": "tool", "tool_call_id": "abcdefghi", "content": "` + saidResult + `"}`
	call := `{"role": "assistant", "content": null, "tool_calls": [{"id": "123456789", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Rome\"}"}}]}`
	own := strings.Replace(result, "abcdefghi", "123456789", 1)
	second := say("system", saidSecond)
	return map[string]string{
		"lone system":               system,
		"lone developer":            say("developer", saidFirst),
		"two systems alone":         system + "," + second,
		"system twice":              system + "," + second + "," + user,
		"system twice, apart":       system + "," + user + "," + second,
		"system and developer":      system + "," + say("developer", saidSecond) + "," + user,
		"developer":                 say("developer", saidFirst) + "," + user,
		"late developer":            user + "," + answer + "," + say("developer", saidFirst) + "," + say("user", saidSecond),
		"system and answer":         system + "," + answer,
		"system and result":         system + "," + result,
		"empty answer":              user + "," + say("assistant", "") + "," + say("user", saidFirst),
		"blank answer":              user + "," + say("assistant", " \n") + "," + say("user", saidFirst),
		"empty answer at the end":   user + "," + say("assistant", ""),
		"empty system":              say("system", "") + "," + user,
		"empty user":                say("user", ""),
		"result without call":       user + "," + result,
		"result with a name":        user + `,{"role": "tool", "name": "now", "content": "` + saidResult + `"}`,
		"result first":              result + "," + user,
		"result alone":              result,
		"result behind an answer":   user + "," + answer + "," + result + "," + say("user", saidFirst),
		"result of another call":    user + "," + call + "," + result + "," + say("user", saidFirst),
		"result twice":              user + "," + call + "," + own + "," + own + "," + say("user", saidFirst),
		"result, then system":       user + "," + call + "," + own + "," + say("system", saidFirst),
		"results in a row":          user + "," + result + "," + result + "," + result,
		"users in a row":            user + "," + say("user", saidFirst) + "," + say("user", saidSecond),
		"call without a result":     user + "," + call + "," + say("user", saidFirst),
		"function instead of tool":  user + `,{"role": "function", "name": "now", "content": "` + saidResult + `"}`,
		"null content":              user + `,{"role": "assistant", "content": null},` + say("user", saidFirst),
		"parts of a system message": `{"role": "system", "content": [{"type": "text", "text": "` + saidFirst + `"}, {"type": "text", "text": "` + saidSecond + `"}]}`,
	}
}

// forgetful are templates that drop text in the ways that vendors' templates do.
var forgetful = map[string]string{
	"last system": `{%- set ns = namespace(s='') -%}{%- for m in messages -%}{%- if m.role == 'system' -%}{%- set ns.s = m.content -%}{%- endif -%}{%- endfor -%}
{{- ns.s -}}{%- for m in messages if m.role != 'system' -%}{{ '<' + m.role + '>' + m.content }}{%- endfor -%}`,
	"system in the first user's turn": `{%- if messages[0].role == 'system' -%}{%- set s = messages[0].content -%}{%- set rest = messages[1:] -%}{%- else -%}{%- set s = '' -%}{%- set rest = messages -%}{%- endif -%}
{%- for m in rest -%}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('turns must alternate') }}{%- endif -%}
{{- '[' + m.role + ']' -}}{%- if loop.first -%}{{ s }}{%- endif -%}{{ m.content }}{%- endfor -%}`,
	"system in the last user's turn": `{%- set s = messages[0].content if messages[0].role == 'system' else '' -%}{%- for m in messages if m.role != 'system' -%}
{{- '[' + m.role + ']' -}}{%- if loop.last and m.role == 'user' -%}{{ s }}{%- if tools -%}{{ tools|tojson }}{%- endif -%}{%- endif -%}{{ m.content }}{%- endfor -%}`,
	"results behind calls": `{%- for m in messages -%}{%- if m.role != 'tool' -%}{{ '<' + m.role + '>' + (m.content or '') }}
{%- for c in m.tool_calls or [] -%}{{ c.function|tojson }}{%- for r in messages if r.role == 'tool' and r.tool_call_id == c.id -%}{{ r.content }}{%- endfor -%}{%- endfor -%}{%- endif -%}{%- endfor -%}
{%- if tools -%}{{ tools|tojson }}{%- endif -%}`,
	"known roles": `{%- for m in messages -%}{%- if m.role in ['user', 'assistant'] or m.role == 'system' and loop.first -%}{{ '<' + m.role + '>' + m.content }}{%- endif -%}{%- endfor -%}`,
	"refuses":     `{%- for m in messages -%}{%- if m.role == 'assistant' and not m.content -%}{{ raise_exception('say something') }}{%- endif -%}{{ '<' + m.role + '>' + m.content|trim }}{%- endfor -%}`,
}

// TestNothingVanishes renders odd conversations with every template. Either every
// text and the tools are in the prompt, or the request is refused.
func TestNothingVanishes(t *testing.T) {
	sources := vendors(t)
	for name, source := range defaults {
		sources["default "+name] = source
	}
	for name, source := range forgetful {
		sources[name] = source
	}
	for name, source := range sources {
		tm, err := New(source, Options{BOS: "<BOS>", EOS: "<EOS>"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		refused := 0
		for turns, messages := range oddTurns() {
			for _, tools := range []*List{nil, describedTools(t)} {
				what := fmt.Sprintf("%s, %s, tools %v", name, turns, tools != nil)
				in := Input{Messages: list(t, "["+messages+"]"), Tools: tools, AddGenerationPrompt: true, Now: time.Unix(0, 0)}
				p, err := tm.Render(t.Context(), in)
				if err != nil {
					var wrong *InputError
					var raise *jinja.RaiseError
					if refused++; !errors.As(err, &wrong) && !errors.As(err, &raise) && name != "fireworks-ai-llama-3-firefunction-v2" {
						t.Errorf("%s: %v", what, err)
					}
					continue
				}
				for _, said := range []string{saidFirst, saidSecond, saidUser, saidAnswer, saidResult} {
					if want, got := strings.Count(messages, said), strings.Count(p.Text(), said); got < want {
						t.Errorf("%s: %s is %d times in the prompt, want %d: %q", what, said, got, want, p.Text())
					}
				}
				if tools != nil && (!strings.Contains(p.Text(), "get_weather") || !strings.Contains(p.Text(), "now")) {
					t.Errorf("%s: no tools in %q", what, p.Text())
				}
				if turns == "null content" {
					in.Messages = list(t, "["+strings.Replace(messages, "null", `""`, 1)+"]")
					if empty, err := tm.Render(t.Context(), in); err != nil || empty.Text() != p.Text() {
						t.Errorf("%s: null is not the empty text: %q", what, p.Text())
					}
				}
			}
		}
		if limit := 4; refused > limit && name != "fireworks-ai-llama-3-firefunction-v2" {
			t.Errorf("%s refuses %d conversations, want at most %d", name, refused, limit)
		}
	}
}
