package quant_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The compiler fuses x*y + z on arm64, and a fused product is not rounded, so
// the same file would decode or encode differently on a Mac. This package must
// not contain fused instructions.
func TestNoFusedMultiplyAdd(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for another machine")
	}
	// Reading the sources makes them inputs of the cached test result.
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-gcflags=-S", ".")
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`\bFMULS\b`).Match(out) {
		t.Fatal("the listing has no multiplication at all")
	}
	for _, line := range regexp.MustCompile(`.*\bFN?M(ADD|SUB)[SD]\b.*`).FindAll(out, -1) {
		t.Errorf("fused: %s", line)
	}
}
