package chat

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// Every vendor's template prints a system message after other turns at its place.
// The prompt before that message does not change when the conversation continues.
func TestLateSystem(t *testing.T) {
	const head, first, late, answer, second = "Xq7head", "Xq7first", "Xq7late", "Xq7answer", "Xq7second"
	say := func(turns ...string) *List {
		var out []map[string]string
		for i := 0; i < len(turns); i += 2 {
			out = append(out, map[string]string{"role": turns[i], "content": turns[i+1]})
		}
		raw, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return list(t, string(raw))
	}
	for name, source := range vendors(t) {
		if name == "fireworks-ai-llama-3-firefunction-v2" { // requires a variable named functions
			continue
		}
		tm, err := New(source, Options{BOS: "<BOS>", EOS: "<EOS>"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		render := func(turns ...string) string {
			p, err := tm.Render(context.Background(), Input{Messages: say(turns...), AddGenerationPrompt: true})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return ""
			}
			return p.Text()
		}
		ordered := func(text string, words ...string) {
			t.Helper()
			at := -1
			for _, w := range words {
				i := strings.Index(text, w)
				if i <= at || strings.Count(text, w) != 1 {
					t.Errorf("%s: %s is not once behind the words before it: %q", name, w, text)
					return
				}
				at = i
			}
		}
		short := render("user", first, "system", late)
		ordered(short, first, late)
		long := render("user", first, "system", late, "assistant", answer, "user", second)
		ordered(long, first, late, answer, second)
		if i := strings.Index(short, late) + len(late); i > len(long) || short[:i] != long[:i] {
			t.Errorf("%s: the beginning changed as the conversation continued:\n%q\n%q", name, short, long)
		}
		both := render("system", head, "user", first, "assistant", answer, "system", late, "user", second)
		if name == "mistralai-Mistral-Nemo-Instruct-2407" { // prints the first message inside the last turn
			ordered(both, first, answer, late, second)
		} else {
			ordered(both, head, first, answer, late, second)
		}
		ordered(render("user", first, "assistant", answer, "system", late), first, answer, late)
	}
}
