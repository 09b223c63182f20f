package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"godwit/engine/cpu"
	"godwit/engine/testmodel"
)

// TestMain sets an unusable home folder, so that a test without one of its own fails
// instead of writing to the user's.
func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv("GODWIT_HOME"); !ok {
		_ = os.Setenv("GODWIT_HOME", filepath.Join(os.DevNull, "home"))
	}
	testscript.Main(m, map[string]func(){
		"godwit":    func() { os.Exit(Main(os.DirFS("."), os.Args[1:])) },
		"fakecheck": fakeCheck,
	})
}

// TestScripts runs testdata/*.txt, each with its own folders. $TINY is a folder of
// small models and $VOCAB a folder of vocabularies. In addition to testscript's own
// commands, there are:
//
//	exits N COMMAND...   the exit code must be N, without a panic
//	occupied NAME        sets NAME to a port that is in use
func TestScripts(t *testing.T) {
	tiny, vocab := testmodel.Smalls(t), filepath.Dir(testmodel.Vocabulary(t, "phi-3"))
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GODWIT_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("TINY", tiny)
			e.Setenv("VOCAB", vocab)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "scarce" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			list, err := cpu.Driver{}.Devices()
			return err == nil && list[0].Free > 0 && list[0].Free < 64<<30, err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    scriptExits,
			"occupied": scriptOccupied,
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

func scriptOccupied(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	ts.Defer(func() { _ = l.Close() })
}
