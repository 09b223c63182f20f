package page

import (
	"encoding/json"
	"testing"

	"godwit/app/store"
)

// TestSilentTurns checks that empty answers are left out of the prompt, except one
// that is being continued.
func TestSilentTurns(t *testing.T) {
	say := func(role store.Role, text string) store.Message { return store.Message{Role: role, Content: text} }
	for _, c := range []struct {
		name string
		path []store.Message
		want string
	}{
		{"stopped", []store.Message{say(store.User, "One?"), say(store.Assistant, ""), say(store.User, "Two?")}, "user:One? user:Two? "},
		{"answered", []store.Message{say(store.User, "One?"), say(store.Assistant, "1"), say(store.User, "Two?")}, "user:One? assistant:1 user:Two? "},
		{"thought", []store.Message{say(store.User, "One?"), {Role: store.Assistant, Reasoning: "Hm"}, say(store.User, "Two?")}, "user:One? assistant: user:Two? "},
		{"called", []store.Message{{Role: store.Assistant, ToolCalls: json.RawMessage(`[{}]`)}, say(store.User, "Two?")}, "assistant: user:Two? "},
		{"continued", []store.Message{say(store.User, "One?"), say(store.Assistant, "")}, "user:One? assistant: "},
		{"asked nothing", []store.Message{say(store.User, ""), say(store.Assistant, "1")}, "user: assistant:1 "},
	} {
		var list []struct{ Role, Content string }
		if err := json.Unmarshal(conversation("", c.path), &list); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range list {
			got += m.Role + ":" + m.Content + " "
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
