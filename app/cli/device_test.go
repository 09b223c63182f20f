package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// fakeCheck simulates a check that goes wrong. It prints a verdict among other
// lines, if requested, and exits with the requested code.
func fakeCheck() {
	for _, arg := range os.Args[1:] {
		switch arg {
		case "verdict":
			fmt.Println(`{"backend":"fake","cases":3}`)
		case "exit":
			os.Exit(3)
		case "hang":
			time.Sleep(time.Hour)
		default:
			fmt.Println(arg)
		}
	}
}

// The result of a check is its last line that is a verdict, if the check ends
// normally. A check that hangs is killed.
func TestVerdictOf(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"{} verdict null fine", ""},
		{"fine", "ended without a verdict"},
		{"verdict exit", "the check failed: exit status 3"},
		{"verdict hang", "the check did not end within 1s and was stopped"},
	} {
		limit := time.Minute
		if strings.Contains(test.args, "hang") {
			limit = time.Second
		}
		c := exec.Command("fakecheck", strings.Fields(test.args)...)
		v, err := verdictOf(t.Context(), c, limit)
		switch {
		case test.want == "" && (err != nil || v.Backend != "fake" || v.Cases != 3):
			t.Errorf("%s: %+v, %v", test.args, v, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || v.Backend != ""):
			t.Errorf("%s: %+v, %v, want %s", test.args, v, err, test.want)
		}
		if c.ProcessState == nil {
			t.Errorf("%s: the process continues", test.args)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := verdictOf(ctx, exec.Command("fakecheck", "hang"), time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := verdictOf(t.Context(), exec.Command(filepath.Join(t.TempDir(), "none")), time.Minute); err == nil {
		t.Error("a program that is not there has checked")
	}
}

// A check in a separate process reports its result, good or bad, and needs no
// writable folder.
func TestCheckApart(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GODWIT_HOME", home)
	check := func(name string) (string, bool) {
		v, err := verdictOf(t.Context(), exec.Command("godwit", "device", "--apart", "--backend", name), 5*time.Minute)
		if err != nil || v.Backend != name || v.Binary == "" {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		return v.String(), v.Passed()
	}
	if found, passed := check("cpu"); !passed {
		t.Errorf("cpu: %s", found)
	}
	if runtime.GOOS != "darwin" {
		if found, passed := check("metal"); passed || !strings.Contains(found, "it needs macOS") {
			t.Errorf("metal: %s", found)
		}
	}
}
