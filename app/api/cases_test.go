package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit/app/api/wire"
)

// act is a request, what the model then writes, and what has to come of it in every
// dialect that can ask for it, whole and streamed.
type act struct {
	what  string
	asked asked
	text  string // answer of the model
	want  said   // finish counts for calls alone
	// refused reports that the grammar of the answer does not allow the text.
	refused bool
	prompt  []string // texts that are in the prompt
	absent  []string // texts that are not
	notice  string   // part of a notice; empty: any or none
}

// scene is a model with what it says.
type scene struct {
	number   int // position in the list of cases
	template string
	controls []string
	acts     []act
}

func number(n int) *int  { return &n }
func truth(b bool) *bool { return &b }

// called is the answer of a call of weather.
func calledWeather(thinking, text string) said {
	return said{text: text, thinking: thinking, call: "weather", arguments: romeInput, finish: "tool_calls"}
}

// Every numbered case holds in every dialect that can ask for it, streamed and not.
func TestCases(t *testing.T) {
	seen := map[int]map[string]int{}
	for _, s := range scenes() {
		t.Run(fmt.Sprintf("%d %s", s.number, s.template), func(t *testing.T) {
			v := recite(t, s.template, s.controls...)
			for _, p := range s.acts {
				for _, d := range speakers() {
					if slices.ContainsFunc(p.asked.wants(), func(what string) bool { return !slices.Contains(d.takes, what) }) {
						continue
					}
					for _, stream := range []bool{false, true} {
						v.act(t, &d, p, stream)
						if seen[s.number] == nil {
							seen[s.number] = map[string]int{}
						}
						seen[s.number][fmt.Sprintf("%s, stream %v", d.name, stream)]++
					}
				}
			}
		})
	}
	if t.Failed() {
		return
	}
	for n, names := range touched {
		for _, d := range names {
			for _, stream := range []bool{false, true} {
				if key := fmt.Sprintf("%s, stream %v", d, stream); seen[n][key] == 0 {
					t.Errorf("case %d has no play in %s", n, key)
				}
			}
		}
	}
}

// act asks once and compares.
func (v *reciter) act(t *testing.T, d *speaker, p act, stream bool) {
	t.Helper()
	v.t = t
	name := fmt.Sprintf("%s: %s, stream %v", p.what, d.name, stream)
	v.says(p.text)
	if p.asked.tokens == 0 {
		p.asked.tokens = 2000
	}
	body := d.body(p.asked)
	body["stream"] = stream
	r := v.ask(http.MethodPost, d.path, body)
	if p.refused {
		if bad := r.status != http.StatusOK || strings.Contains(string(r.body), `"error"`); !bad {
			t.Errorf("%s: the text was allowed: %s", name, r.body)
		}
		return
	}
	if r.status != http.StatusOK {
		t.Errorf("%s: %d %s", name, r.status, r.body)
		return
	}
	got := d.read(t, r, stream)
	got.arguments = strings.ReplaceAll(got.arguments, " ", "")
	if p.want.finish != "tool_calls" && got.finish != "tool_calls" && !strings.Contains(got.finish, "pieces") {
		got.finish = p.want.finish
	}
	if got != p.want {
		t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, p.want)
	}
	prompt := v.read()
	for _, s := range p.prompt {
		if !strings.Contains(prompt, s) {
			t.Errorf("%s: %q is not in the prompt %q", name, s, prompt)
		}
	}
	for _, s := range p.absent {
		if strings.Contains(prompt, s) {
			t.Errorf("%s: %q is in the prompt %q", name, s, prompt)
		}
	}
	if notices := strings.Join(r.header.Values(wire.NoticeHeader), "\n"); !strings.Contains(notices, p.notice) {
		t.Errorf("%s: notices %q, want %q", name, notices, p.notice)
	}
}

// read reads an answer.
func (d *speaker) read(t *testing.T, r reply, stream bool) (s said) {
	t.Helper()
	if !stream {
		return d.whole(r.json(t))
	}
	for _, e := range readEvents(t, r.body) {
		if e.data != "[DONE]" {
			d.part(e.name, e.json(t), &s)
		}
	}
	return s
}

// said asks for an answer and reads it.
func (v *reciter) said(d *speaker, body object) (said, reply) {
	t := v.t.(*testing.T)
	t.Helper()
	r := v.ask(http.MethodPost, d.path, body)
	if r.status != http.StatusOK {
		t.Fatalf("%s: %d %s", d.name, r.status, r.body)
	}
	return d.read(t, r, body["stream"] == true), r
}

// touched are the dialects that each case touches. Forms and tools have no place in LM
// Studio's chat, tools none in Ollama's generate, and neither they nor Ollama's chat can
// demand a call. Case 6 also has TestControlEndsThinking and TestBudgetNames, case 10 TestLooseSchemas.
var touched = func() map[int][]string {
	chats := []string{"chat", "llama-server", "LM Studio", "responses", "messages", "Ollama"}
	forms := append(slices.Clone(chats), "Ollama generate")
	all := append(slices.Clone(forms), "LM Studio chat")
	return map[int][]string{1: forms, 2: chats, 3: chats, 4: all, 5: all, 6: all, 7: chats, 8: chats, 9: all, 10: forms}
}()
