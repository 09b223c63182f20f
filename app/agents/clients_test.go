//go:build agents

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// agent is a coding agent from npm.
type agent struct {
	name     string
	template string                                        // template of the model that it talks to
	tool     string                                        // name of its tool for edits
	beside   string                                        // text of its requests beside the conversation; may be empty
	rewrites bool                                          // resuming a session removes the date from its first message
	look     func(note string) string                      // the model's call that reads the note
	edit     func(note, old, new string) string            // the model's call that replaces a word in the note
	setUp    func(t testing.TB, url, work string) []string // writes its settings, returns its environment
	first    func(prompt string) []string                  // command of a new session
	again    func(prompt string) []string                  // command that continues the last session
}

// packages is the folder of the pinned npm packages.
func packages(elem ...string) string {
	return filepath.Join(append([]string{os.Getenv("GODWIT_AGENTS"), "node_modules"}, elem...)...)
}

// box is an environment with a home of its own, and nothing else of this machine.
func box(t testing.TB, more ...string) []string {
	home := t.TempDir()
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config", "XDG_DATA_HOME=" + home + "/data",
		"XDG_CACHE_HOME=" + home + "/cache", "XDG_STATE_HOME=" + home + "/state", "TERM=dumb", "NO_COLOR=1", "LANG=C.UTF-8", "CI=1",
	}, more...)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func agents() []agent { return []agent{claude(), codex(), opencode(), qwen()} }

func claude() agent {
	bin := packages("@anthropic-ai", "claude-code-linux-x64", "claude")
	return agent{
		name: "claude", template: "Qwen3-Coder", tool: "Edit",
		look: func(note string) string { return xml("Read", map[string]string{"file_path": note}) },
		edit: func(note, old, new string) string {
			return xml("Edit", map[string]string{"file_path": note, "old_string": old, "new_string": new})
		},
		setUp: func(t testing.TB, url, _ string) []string {
			return box(t, "ANTHROPIC_BASE_URL="+url, "ANTHROPIC_AUTH_TOKEN=local", "ANTHROPIC_MODEL=small", "ANTHROPIC_SMALL_FAST_MODEL=small",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1")
		},
		first: func(p string) []string {
			return []string{bin, "-p", p, "--permission-mode", "acceptEdits", "--output-format", "json"}
		},
		again: func(p string) []string {
			return []string{bin, "-p", p, "--continue", "--permission-mode", "acceptEdits", "--output-format", "json"}
		},
	}
}

func codex() agent {
	bin := packages("@openai", "codex-linux-x64", "vendor", "x86_64-unknown-linux-musl", "bin", "codex")
	return agent{
		name: "codex", template: "Qwen-Qwen3-0.6B", tool: "exec_command",
		look: func(string) string { return hermes("exec_command", map[string]string{"cmd": "cat note.txt"}) },
		edit: func(_, old, new string) string {
			return hermes("exec_command", map[string]string{"cmd": "apply_patch <<'END'\n*** Begin Patch\n*** Update File: note.txt\n@@\n-The house is " + old +
				".\n+The house is " + new + ".\n*** End Patch\nEND\n"})
		},
		setUp: func(t testing.TB, url, work string) []string {
			env := box(t)
			home := t.TempDir()
			write(t, filepath.Join(home, "config.toml"), fmt.Sprintf(`model = "small"
model_provider = "godwit"
check_for_update_on_startup = false

[model_providers.godwit]
name = "Godwit"
base_url = "%s/v1"
wire_api = "responses"

[analytics]
enabled = false
`, url))
			return append(env, "CODEX_HOME="+home)
		},
		first: func(p string) []string {
			return []string{bin, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", p}
		},
		again: func(p string) []string {
			return []string{bin, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "resume", "--last", p}
		},
	}
}

func opencode() agent {
	bin := packages("opencode-linux-x64-baseline", "bin", "opencode")
	return agent{
		name: "opencode", template: "Qwen3-Coder", tool: "edit",
		look: func(note string) string { return xml("read", map[string]string{"filePath": note}) },
		edit: func(note, old, new string) string {
			return xml("edit", map[string]string{"filePath": note, "oldString": old, "newString": new})
		},
		setUp: func(t testing.TB, url, work string) []string {
			write(t, filepath.Join(work, "opencode.json"), strings.ReplaceAll(`{
 "provider": {"godwit": {"npm": "@ai-sdk/openai-compatible", "name": "Godwit", "options": {"baseURL": "@ADDRESS@/v1"},
  "models": {"small": {"name": "small", "limit": {"context": 100000, "output": 4096}}}}},
 "model": "godwit/small", "small_model": "godwit/small", "autoupdate": false, "share": "disabled"}`, "@ADDRESS@", url))
			return box(t, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1")
		},
		first: func(p string) []string { return []string{bin, "run", p} },
		again: func(p string) []string { return []string{bin, "run", "--continue", p} },
	}
}

func qwen() agent {
	js := packages("@qwen-code", "qwen-code", "cli.js")
	return agent{
		name: "qwen", template: "Qwen-Qwen3-0.6B", tool: "edit", beside: "managed memory extraction", rewrites: true,
		look: func(note string) string { return hermes("read_file", map[string]string{"file_path": note}) },
		edit: func(note, old, new string) string {
			return hermes("edit", map[string]string{"file_path": note, "old_string": old, "new_string": new})
		},
		setUp: func(t testing.TB, url, _ string) []string {
			return box(t, "OPENAI_BASE_URL="+url+"/v1", "OPENAI_API_KEY=local", "OPENAI_MODEL=small", "QWEN_TELEMETRY_ENABLED=false", "QWEN_SANDBOX=false", "QWEN_CODE_SUPPRESS_YOLO_WARNING=1")
		},
		first: func(p string) []string { return []string{"node", js, "--auth-type", "openai", "--yolo", "-p", p} },
		again: func(p string) []string {
			return []string{"node", js, "--auth-type", "openai", "--yolo", "--continue", "-p", p}
		},
	}
}
