package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"godwit/app/api/wire"
)

// act is a request with the text that the model then writes, and the expected
// answer in every dialect that supports the request, whole and streamed.
type act struct {
	what    string
	asked   asked
	text    string   // answer of the model
	want    said     // the finish reason is compared only for calls
	refused string   // part of the expected error; if empty, the request succeeds
	prompt  []string // texts that the prompt must contain
	absent  []string // texts that it must not contain
	notice  string   // part of the expected notice; if empty, notices are not checked
}

// scene is a model with its requests.
type scene struct {
	number   int // number in the list of cases
	template string
	controls []string
	acts     []act
}

func number(n int) *int  { return &n }
func truth(b bool) *bool { return &b }

// called is an answer that calls weather.
func calledWeather(thinking, text string) said {
	return said{text: text, thinking: thinking, call: "weather", arguments: romeInput, finish: "tool_calls"}
}

// supports reports whether the dialect can express a request.
func (d *speaker) supports(a asked) bool {
	return !slices.ContainsFunc(a.wants(), func(what string) bool { return !slices.Contains(d.takes, what) })
}

// Every numbered case holds in every dialect that supports it, streamed and not.
func TestCases(t *testing.T) {
	for i, s := range scenes() {
		if testing.Short() && i%8 > 0 { // the race detector needs some answers, not all cases
			continue
		}
		t.Run(fmt.Sprintf("%d %s", s.number, s.template), func(t *testing.T) {
			v := recite(t, s.template, s.controls...)
			for _, p := range s.acts {
				for _, d := range speakers() {
					if d.supports(p.asked) {
						v.act(t, &d, p, false)
						v.act(t, &d, p, true)
					}
				}
			}
		})
	}
}

// Every numbered case has a scene that each dialect in question can play.
func TestCasesCovered(t *testing.T) {
	for n, names := range touched {
		for _, name := range names {
			plays := func(p act) bool {
				return slices.ContainsFunc(speakers(), func(d speaker) bool { return d.name == name && d.supports(p.asked) })
			}
			if !slices.ContainsFunc(scenes(), func(s scene) bool { return s.number == n && slices.ContainsFunc(s.acts, plays) }) {
				t.Errorf("case %d has no scene in %s", n, name)
			}
		}
	}
}

// act sends a request and compares the answer.
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
	if p.refused != "" {
		if !strings.Contains(string(r.body), `"error"`) || !strings.Contains(string(r.body), p.refused) {
			t.Errorf("%s: %d %s, want an error with %q", name, r.status, r.body, p.refused)
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

// said sends a request and reads the answer.
func (v *reciter) said(d *speaker, body object) (said, reply) {
	t := v.t.(*testing.T)
	t.Helper()
	r := v.ask(http.MethodPost, d.path, body)
	if r.status != http.StatusOK {
		t.Fatalf("%s: %d %s", d.name, r.status, r.body)
	}
	return d.read(t, r, body["stream"] == true), r
}

// touched lists the dialects for each case. LM Studio's chat has neither forms nor
// tools, Ollama's generate has no tools, and neither of them nor Ollama's chat can
// require a call. Case 6 is also covered by TestControlEndsThinking and
// TestBudgetNames, and case 10 by TestLooseSchemas.
var touched = func() map[int][]string {
	chats := []string{"chat", "llama-server", "LM Studio", "responses", "messages", "Ollama"}
	forms := append(slices.Clone(chats), "Ollama generate")
	all := append(slices.Clone(forms), "LM Studio chat")
	return map[int][]string{1: forms, 2: chats, 3: chats, 4: all, 5: all, 6: all, 7: chats, 8: chats, 9: all, 10: forms}
}()
