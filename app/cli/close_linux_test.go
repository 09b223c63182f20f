package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"godwit/engine/testmodel"
)

// closeLimit is how long the program may take to exit.
const closeLimit = 3 * time.Second

// TestCloseWhileMeasuring interrupts `serve --ui` during a calibration and during
// a measurement of the page, at three moments each.
func TestCloseWhileMeasuring(t *testing.T) {
	for _, c := range []struct{ name, start, body, of string }{
		{"calibration", "/app/models/small/load", "", `"preparing":{"state":"measuring"`},
		{"measurement", "/app/quality", `{"model":"small"}`, `"doing":"`},
	} {
		for _, after := range []time.Duration{0, 700 * time.Millisecond, 2 * time.Second} {
			t.Run(fmt.Sprintf("%s/%v", c.name, after), func(t *testing.T) {
				s := newPaged(t)
				s.ask("POST", c.start, c.body)
				path := "/app/state"
				if c.name == "measurement" {
					path = "/app/quality?model=small"
				}
				for end := time.Now().Add(2 * time.Minute); !strings.Contains(s.ask("GET", path, ""), c.of); {
					if time.Now().After(end) {
						t.Fatalf("nothing is measured: %s", s.ask("GET", path, ""))
					}
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(after)
				begun := time.Now()
				if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				if err := s.cmd.Wait(); err != nil {
					t.Errorf("the program ends with %v: %s", err, s.log.Bytes())
				}
				if took := time.Since(begun); took > closeLimit {
					t.Errorf("closed in %v, want at most %v", took, closeLimit)
				} else {
					t.Logf("closed in %v", took)
				}
			})
		}
	}
}

// pagedServer is a running `serve --ui`.
type pagedServer struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   bytes.Buffer
	url   string
	token string
}

// newPaged starts the program in a new home with the small real model and a
// preset that needs a calibration.
func newPaged(t *testing.T) *pagedServer {
	t.Helper()
	home := t.TempDir()
	models := filepath.Join(home, "data", "models")
	if err := os.MkdirAll(models, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testmodel.SmolLM2(t), filepath.Join(models, "small.gguf")); err != nil {
		t.Fatal(err)
	}
	s := &pagedServer{t: t, cmd: exec.Command("godwit", "serve", "--ui", "--port", "0", "--kv-preset", firstPreset, "-c", "4096")}
	s.cmd.Env = append(os.Environ(), "GODWIT_HOME="+home)
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
			s.url = strings.TrimSpace(at)
			break
		}
	}
	var config struct{ Token string }
	if err := json.Unmarshal([]byte(s.ask("GET", "/app/config.json", "")), &config); err != nil {
		t.Fatal(err)
	}
	s.token = config.Token
	return s
}

// ask sends a request and returns the body of its answer.
func (s *pagedServer) ask(method, path, body string) string {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %d %s, %v", method, path, answer.StatusCode, text, err)
	}
	return string(text)
}
