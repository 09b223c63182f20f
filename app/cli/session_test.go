package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit/engine/kv"
	"godwit/engine/testmodel"
)

// served is a running godwit serve process.
type served struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	errs bytes.Buffer
}

func serveProcess(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{t: t, cmd: exec.Command("godwit", append([]string{"serve", "--port", "0", "-c", "512"}, args...)...)}
	s.cmd.Env = append(os.Environ(), "GODWIT_HOME="+t.TempDir())
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		_ = s.cmd.Wait()
		t.Fatalf("serve %q: %q, %v\n%s", args, line, err, &s.errs)
	}
	s.url = url
	return s
}

// end interrupts the process, which must then exit normally.
func (s *served) end() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("serve: %v\n%s", err, &s.errs)
	}
}

// post returns the status and the response body.
func (s *served) post(path string, body any) (status int, answer map[string]any) {
	s.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.Post(s.url+path, "application/json", bytes.NewReader(data))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, text)
	}
	return resp.StatusCode, answer
}

// The server prints its address, answers, and ends at the first interrupt.
func TestServe(t *testing.T) {
	s := serveProcess(t, testmodel.Small(t, "llama-hd64"))
	if !strings.HasPrefix(s.url, "http://127.0.0.1:") {
		t.Errorf("it listens on %s", s.url)
	}
	get := func(path string) (int, string) {
		resp, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for status, body := get("/health"); status != http.StatusOK; status, body = get("/health") {
		if status != http.StatusServiceUnavailable {
			t.Fatalf("health: %d %s", status, body)
		}
		time.Sleep(20 * time.Millisecond) // still loading
	}
	if status, body := get("/v1/models"); status != http.StatusOK || !strings.Contains(body, "llama-hd64") {
		t.Errorf("models: %d %s", status, body)
	}
	s.end()
	if text := s.errs.String(); strings.Contains(text, "panic") || strings.Contains(text, "goroutine") {
		t.Error(text)
	}
}

// One process saves a slot for every cache type, for windows and for recurrent
// states. Another process restores it and continues where the first ended. A
// damaged file is rejected, and the server continues to run.
func TestSessionInNewProcess(t *testing.T) {
	type model struct{ file, k, v string }
	cases := []model{{"gemma3-hd64", "f16", "f16"}, {"qwen35", "f16", "q8_0"}}
	for _, typ := range kv.Types() {
		cases = append(cases, model{"llama-hd128-llama3rope", typ.Name, typ.Name})
	}
	prompt := make([]int, 200)
	for i := range prompt {
		prompt[i] = 10 + i*i%97
	}
	ask := map[string]any{"prompt": prompt, "n_predict": 6, "temperature": 0, "ignore_eos": true, "return_tokens": true}
	file := map[string]any{"filename": "saved"}
	for _, c := range cases {
		t.Run(strings.Join([]string{c.file, c.k, c.v}, " "), func(t *testing.T) {
			path := testmodel.Small(t, c.file)
			args := []string{path, "-ctk", c.k, "-ctv", c.v, "--slot-save-path", t.TempDir()}
			first := serveProcess(t, args...)
			_, before := first.post("/completion", with(ask, "id_slot", 1))
			if status, r := first.post("/slots/1?action=save", file); status != 200 || r["n_saved"] != 205.0 {
				t.Errorf("saved: %d %v", status, r)
			}
			first.end()
			second := serveProcess(t, args...)
			if status, r := second.post("/slots/3?action=restore", file); status != 200 || r["n_restored"] != 205.0 {
				t.Errorf("restored: %d %v", status, r)
			} else if from, ok := r["n_reuse_from"].(float64); !ok || from < 64 || from > 192 {
				t.Errorf("reuse begins at %v, want 192, the page border before the end of the prompt, or less", r["n_reuse_from"])
			}
			longer := slices.Clone(prompt)
			for _, id := range before["tokens"].([]any) {
				longer = append(longer, int(id.(float64)))
			}
			// The last token was not computed, and rows are reused by whole pages.
			if _, r := second.post("/completion", with(ask, "prompt", longer)); r["tokens_cached"] != 205.0 && r["tokens_cached"] != 192.0 {
				t.Errorf("%v of %d tokens were taken from the restored slot", r["tokens_cached"], len(longer))
			}
			if _, r := second.post("/completion", ask); fmt.Sprint(r["tokens"]) != fmt.Sprint(before["tokens"]) || r["tokens_cached"] != 192.0 {
				t.Errorf("the answer is %v, before the restart %v; %v tokens were taken from the slot, want 192", r["tokens"], before["tokens"], r["tokens_cached"])
			}
			saved := filepath.Join(args[len(args)-1], "saved")
			data, err := os.ReadFile(saved)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)*2/3] ^= 4
			if err := os.WriteFile(saved, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if status, r := second.post("/slots/3?action=restore", file); status != 400 {
				t.Errorf("a damaged file: %d %v", status, r)
			}
			if status, _ := second.post("/completion", ask); status != 200 {
				t.Errorf("after a damaged file: %d", status)
			}
			second.end()
		})
	}
}

// with returns a copy of an object with one more field.
func with(o map[string]any, key string, value any) map[string]any {
	c := maps.Clone(o)
	c[key] = value
	return c
}
