package api

import (
	"strings"
	"testing"

	"godwit/engine"
)

// A predicted answer has the same text, and its counts say how many tokens were
// proposed.
func TestPrediction(t *testing.T) {
	plain := shared(t)
	v := startModel(t, func(o *setup) { o.Engine.Drafter = engine.NGram })
	ask := func(v *live, prediction any) map[string]any {
		body := object{"messages": user("Tell me about a river."), "max_tokens": 80, "ignore_eos": true, "temperature": 0}
		if prediction != nil {
			body["prediction"] = prediction
		}
		return v.post("/v1/chat/completions", body)
	}
	want := at(ask(plain, nil), "choices", 0, "message", "content").(string)
	for _, p := range []any{
		object{"type": "content", "content": want},
		object{"type": "content", "content": []object{{"type": "text", "text": want[:len(want)/2]}, {"type": "text", "text": want[len(want)/2:]}}},
	} {
		m := ask(v, p)
		if got := at(m, "choices", 0, "message", "content"); got != want {
			t.Errorf("with a prediction: %q, want %q", got, want)
		}
		n, _ := at(m, "usage", "completion_tokens_details", "accepted_prediction_tokens").(float64)
		if n < 20 || at(m, "timings", "draft_n_accepted") != n {
			t.Errorf("%v tokens of the prediction were accepted, want 20 or more; timings %v", n, m["timings"])
		}
	}
	if text := string(v.ask("GET", "/metrics", nil).body); strings.Contains(text, "\ngodwit_draft_tokens_accepted_total 0\n") {
		t.Error("/metrics counts no accepted tokens")
	}
	for _, bad := range []any{object{"type": "text", "content": "a"}, object{"type": "content", "content": 3}, object{"type": "content", "content": []object{{"type": "image_url"}}}} {
		if r := v.ask("POST", "/v1/chat/completions", object{"messages": user("a"), "prediction": bad}); r.status != 400 {
			t.Errorf("prediction %v: status %d, want 400", bad, r.status)
		}
	}
}
