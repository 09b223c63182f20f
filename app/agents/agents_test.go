//go:build agents

package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// The words of the conversations.
const (
	ask    = "Replace the word yellow by purple in note.txt."
	done   = "The word is purple now."
	more   = "Which word did you write?"
	told   = "I wrote purple."
	before = "The house is yellow.\nIt has a door.\n"
	after  = "The house is purple.\nIt has a door.\n"
)

// slack is how many unchanged tokens may be computed again, beside those that a
// cache type keeps exactly.
const slack = 64

// runTime bounds one run of an agent.
const runTime = 15 * time.Minute

// TestAgents runs every agent on a file edit through its tools and on a second
// turn in the resumed session.
func TestAgents(t *testing.T) {
	path := map[string]string{}
	for _, a := range agents() {
		if path[a.template] == "" {
			path[a.template] = smallModel(t, a.template)
		}
		t.Run(a.name, func(t *testing.T) { a.session(t, path[a.template], engine.Options{}, 0, 1) })
	}
}

// TestAgentsPacked is TestAgents on packed caches.
func TestAgentsPacked(t *testing.T) {
	if os.Getenv("GODWIT_TEST") != "all" {
		t.Skip("GODWIT_TEST=all runs the agents on packed caches")
	}
	for _, name := range []string{"q8_0", "turbo3", "gw3"} {
		ty, err := kv.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range agents() {
			t.Run(name+"/"+a.name, func(t *testing.T) {
				o := engine.Options{Want: layout.Want{K: ty, V: ty}}
				a.session(t, smallModel(t, a.template), o, window, 1)
			})
		}
	}
}

// TestAgentsLong is TestAgents with a hundred edits in the first turn.
func TestAgentsLong(t *testing.T) {
	if os.Getenv("GODWIT_TEST") != "all" {
		t.Skip("GODWIT_TEST=all runs the agents through a hundred edits")
	}
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) { a.session(t, smallModel(t, a.template), engine.Options{}, 0, 100) })
	}
}

// window is how many of the last tokens a packed type keeps exactly.
const window = 128

// session lets an agent edit a file several times, asks a second question in the
// same session, and checks what the server computed.
func (a *agent) session(t *testing.T, path string, o engine.Options, exact, edits int) {
	o.Context, o.Parallel = 100000, 4
	s := start(t, path, o)
	t.Cleanup(func() { s.dump(t) })
	work := t.TempDir()
	note := filepath.Join(work, "note.txt")
	write(t, note, before)
	offered := regexp.MustCompile(`"name":\s*"` + a.tool + `"`)
	var main []*turn
	script := []string{a.look(note)}
	for i := range edits {
		script = append(script, a.edit(note, shade(i, edits), shade(i+1, edits)))
	}
	script = append(script, done, told)
	s.say = func(r *turn) string {
		beside := a.beside != "" && strings.Contains(r.text, a.beside)
		if beside || !strings.Contains(r.text, ask) || !offered.Match(r.body) {
			return "A title." // a title for the conversation, or another side request
		}
		main = append(main, r)
		return script[min(len(main), len(script))-1]
	}
	env := a.setUp(t, s.url, work)
	a.run(t, env, work, a.first(ask), done)
	if b, err := os.ReadFile(note); err != nil || string(b) != after {
		t.Fatalf("%s holds %q, %v", note, b, err)
	}
	a.run(t, env, work, a.again(more), told)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.status >= 400 && r.path != "HEAD /" && !strings.HasPrefix(r.path, "GET ") {
			t.Errorf("%s: %d %.300s", r.path, r.status, r.reply.Bytes())
		}
	}
	if len(main) != len(script) {
		t.Fatalf("%d requests of the conversation, want %d", len(main), len(script))
	}
	for i, r := range main[1:] {
		last := main[i]
		same := common(r.prompt, append(last.prompt[:len(last.prompt):len(last.prompt)], last.answer...))
		cached := r.cached(t)
		t.Logf("turn %d: %d tokens, %d as before, %d reused", i+2, len(r.prompt), same, cached)
		if cached < same-slack-exact {
			t.Errorf("turn %d: %d of %d unchanged tokens reused", i+2, cached, same)
		}
		resumed := i+2 == len(main)
		if same < len(last.prompt)*9/10 && !(resumed && a.rewrites) {
			t.Errorf("turn %d: only %d of %d tokens are as before", i+2, same, len(last.prompt))
		}
	}
}

// shade is the colour in the note after i of n edits.
func shade(i, n int) string {
	switch i {
	case 0:
		return "yellow"
	case n:
		return "purple"
	}
	return fmt.Sprintf("shade%d", i)
}

// common is the length of the common beginning.
func common(a, b []llm.Token) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// run runs the agent once; its output has to contain a text.
func (a *agent) run(t *testing.T, env []string, work string, args []string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	begin := time.Now()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = work, env, time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %.1f s", a.name, time.Since(begin).Seconds())
	if err != nil || !strings.Contains(string(out), want) {
		t.Fatalf("%q: %v\n%.4000s", args, err, out)
	}
}

// hermes writes a call as the templates of Qwen 2.5 and 3 have it.
func hermes(name string, args map[string]string) string {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("I will do that.\n<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", name, raw)
}

// xml writes a call in the form of Qwen 3 Coder's template.
func xml(name string, args map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<tool_call>\n<function=%s>\n", name)
	for key, value := range args {
		fmt.Fprintf(&b, "<parameter=%s>\n%s\n</parameter>\n", key, value)
	}
	b.WriteString("</function>\n</tool_call>")
	return b.String()
}
