//go:build agents

package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine"
)

// TestLibraries runs build/agents/*_check.py, which use agent libraries for Python,
// against scripted answers. A question begins with ASK and a word that selects the answer.
func TestLibraries(t *testing.T) {
	if os.Getenv("GODWIT_TEST") != "all" {
		t.Skip("GODWIT_TEST=all runs the agent libraries for Python")
	}
	scripts, err := filepath.Glob("../../build/agents/*_check.py")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts %v, %v", scripts, err)
	}
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), "_check.py")
		venv := "python"
		if name == "instructor" {
			venv = "instructor" // needs an older openai than the others
		}
		t.Run(name, func(t *testing.T) {
			s := start(t, smallModel(t, "Qwen-Qwen3-0.6B"), engine.Options{Context: 32768, Parallel: 2})
			s.say = libraryAnswer
			cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("GODWIT_AGENTS"), venv, "bin", "python"), script)
			cmd.Env = box(t, "GODWIT_URL="+s.url)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
			for _, r := range s.all {
				if r.status != 200 {
					t.Errorf("%s: %d %.300s", r.path, r.status, r.reply.Bytes())
				}
			}
		})
	}
}

// libraryAnswer is the scripted answer to a question of build/agents/*_check.py.
func libraryAnswer(r *turn) string {
	const person, form = `{"name": "Ada", "age": 36}`, `{"city": "Oslo", "degrees": 21}`
	call := func(name, args string) string {
		return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + args + "}\n</tool_call>"
	}
	_, question, _ := strings.Cut(r.text, "ASK ")
	answered := strings.Contains(question, "<tool_response>")
	kind, _, _ := strings.Cut(strings.Fields(question)[0], "<|")
	switch kind {
	case "person":
		return person
	case "fenced":
		return "Here it is:\n```json\n" + person + "\n```\n"
	case "people":
		return call("Person", person) + "\n" + call("Person", `{"name": "Bob", "age": 5}`)
	case "two":
		if !answered {
			return call("weather", `{"city": "Oslo"}`) + "\n" + call("weather", `{"city": "Rome"}`)
		}
	case "tool":
		if answered {
			return call("final_result", form)
		}
	}
	if !answered {
		return call("weather", `{"city": "Oslo"}`)
	}
	return form
}
