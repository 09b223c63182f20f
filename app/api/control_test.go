package api

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
)

// reasoning_end ends the thinking of an answer that runs, and the answer follows, in
// every dialect whose chunks have an id.
func TestControlEndsThinking(t *testing.T) {
	v := recite(t, "Qwen3.5-4B", chatML...)
	thoughts := strings.Repeat("I think, ", 6000) // longer than the test needs
	v.says(thoughts)
	for _, d := range speakers() {
		id := []any{"id"}
		switch d.name {
		case "chat", "llama-server", "LM Studio":
		case "responses":
			id = []any{"response", "id"}
		default:
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		body := d.body(asked{tokens: 50000})
		body["stream"] = true
		r, err := v.request(ctx, http.MethodPost, d.path, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var got said
		name, running := "", ""
		for lines := bufio.NewScanner(resp.Body); got.text == "" && lines.Scan(); {
			if s, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = s
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			e := event{name, data}.json(t)
			if running == "" {
				running, _ = at(e, id...).(string)
			}
			before := got.thinking
			if d.part(name, e, &got); before == "" && got.thinking != "" {
				c := v.post("/v1/chat/completions/control", object{"id": running, "action": "reasoning_end"})
				if c["success"] != true || c["id"] != running {
					t.Errorf("%s: %v", d.name, c)
				}
			}
		}
		cancel()
		_ = resp.Body.Close()
		if got.text == "" || got.thinking == "" || !strings.HasPrefix(thoughts, got.thinking) || strings.Contains(got.thinking+got.text, "think>") {
			t.Errorf("%s: %d bytes of thinking, then %q", d.name, len(got.thinking), got.text)
		}
		wait(t, "free slot", func() bool { return v.Server.controls.Idle() })
		if c := v.ask(http.MethodPost, "/v1/chat/completions/control", object{"id": running, "action": "reasoning_end"}); c.status != http.StatusNotFound {
			t.Errorf("%s: control of an ended answer: %d %s", d.name, c.status, c.body)
		}
	}
}

// A budget has the same names in every dialect, and the server's message stays unless the
// request has its own.
func TestBudgetNames(t *testing.T) {
	v := recite(t, "Qwen3.5-4B", chatML...)
	set := v.o.Settings
	set.Server.ReasoningMessage = " Enough."
	if err := v.Apply(&set); err != nil {
		t.Fatal(err)
	}
	v.says("Wellthe answer")
	for _, d := range speakers() {
		for _, field := range []string{"thinking_budget_tokens", "reasoning_budget", "reasoning_budget_tokens"} {
			for _, stream := range []bool{false, true} {
				for message, want := range map[string]string{"": "Well Enough.", " Stop.": "Well Stop."} {
					body := d.body(asked{tokens: 100})
					body["stream"], body[field] = stream, 4
					if message != "" {
						body["reasoning_budget_message"] = message
					}
					s, r := v.said(&d, body)
					if s.thinking != want || s.text != "the answer" || r.header.Get("X-Godwit-Ignored") != "" {
						t.Errorf("%s, %s, stream %v: %+v, header %v", d.name, field, stream, s, r.header)
					}
				}
			}
		}
	}
}
