// Package golden finds the conformance data for tests.
package golden

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Path returns the path of a file of the golden data: below $GODWIT_GOLDEN,
// else below ../shared/golden beside the repository. A missing file fails the
// test in CI and skips it elsewhere.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{root()}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("golden data is missing: %v", err)
		}
		t.Skipf("golden data is missing (set GODWIT_GOLDEN): %v", err)
	}
	return path
}

func root() string {
	if dir := os.Getenv("GODWIT_GOLDEN"); dir != "" {
		return dir
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "shared", "golden")
}

// Read returns the content of a file of the golden data, as Path finds it.
func Read(t testing.TB, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(Path(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
