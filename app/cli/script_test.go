package cli

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"godwit/engine/testmodel"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"godwit":    func() { os.Exit(Main(os.DirFS("."), os.Args[1:])) },
		"fakecheck": fakeCheck,
	})
}

// TestScripts runs testdata/*.txt, each with folders of its own. $TINY and
// $VOCAB are folders of the golden data. Beside testscript's own commands:
//
//	exits N COMMAND...   the exit code is N, and nobody panicked
//	occupied NAME        NAME is a port on which something listens
//	unoccupied NAME      NAME is a port on which nothing listens
//	get URL              what URL answers is stdout; it may take 10 s to come up
func TestScripts(t *testing.T) {
	tiny, vocab := testmodel.Golden(t, "models", "tiny"), testmodel.Golden(t, "vocab")
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GODWIT_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("TINY", tiny)
			e.Setenv("VOCAB", vocab)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":      scriptExits,
			"occupied":   func(ts *testscript.TestScript, _ bool, args []string) { scriptPort(ts, args[0], true) },
			"unoccupied": func(ts *testscript.TestScript, _ bool, args []string) { scriptPort(ts, args[0], false) },
			"get":        scriptGet,
		},
	})
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	if text := ts.ReadFile("stderr"); strings.Contains(text, "panic:") || strings.Contains(text, "goroutine ") {
		ts.Fatalf("a panic")
	}
}

func scriptPort(ts *testscript.TestScript, name string, occupied bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(name, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	if !occupied {
		ts.Check(l.Close())
		return
	}
	ts.Defer(func() { _ = l.Close() })
}

func scriptGet(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(args[0])
		if err != nil {
			if time.Now().After(deadline) {
				ts.Fatalf("%v", err)
			}
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read to its end
		ts.Check(err)
		if resp.StatusCode == http.StatusServiceUnavailable && time.Now().Before(deadline) {
			continue // still loading
		}
		if resp.StatusCode != http.StatusOK {
			ts.Fatalf("%s: %s", resp.Status, body)
		}
		_, err = ts.Stdout().Write(body)
		ts.Check(err)
		return
	}
}
