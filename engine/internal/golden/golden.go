// Package golden finds the conformance data for tests.
//
// Most of it comes with the clone, in engine/testdata/golden, and its absence is a
// failure. $GODWIT_GOLDEN, or else ../shared/golden beside the repository, is an
// additional folder with the same layout. A file that is in both is read from the
// additional folder. Tests of data that no clone has are skipped without that
// folder.
package golden

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// apart are the folders that no clone has: vocabularies under a separate
// licence, and models whose architectures golden/arch covers.
var apart = []string{"vocab", "vision", "models/tiny"}

// Path returns the path of a file or folder of the golden data.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	name := filepath.ToSlash(filepath.Join(elem...))
	added := filepath.Join(added(), filepath.FromSlash(name))
	_, err := os.Stat(added)
	if slices.ContainsFunc(apart, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }) {
		if err != nil {
			t.Skipf("not in this clone: golden/%s (set GODWIT_GOLDEN)", name)
		}
		return added
	}
	own := filepath.Join(testdata(), "golden", filepath.FromSlash(name))
	if _, missing := os.Stat(own); missing != nil && (err != nil || inClone(t, name)) {
		t.Fatalf("golden data is missing from the clone: %v", missing)
	}
	if err == nil {
		return added
	}
	return own
}

// Read returns the content of a file of the golden data. It finds the file as
// Path does.
func Read(t testing.TB, elem ...string) []byte {
	t.Helper()
	return read(t, Path(t, elem...))
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// inClone reports whether the list of the clone's golden data contains a file
// or folder.
func inClone(t testing.TB, name string) bool {
	t.Helper()
	for line := range strings.Lines(string(read(t, filepath.Join(testdata(), "golden", "SHA256SUMS")))) {
		_, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if file == name || strings.HasPrefix(file, name+"/") {
			return true
		}
	}
	return false
}

// testdata returns the path of engine/testdata.
func testdata() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "testdata")
}

// added returns the additional folder.
func added() string {
	if dir := os.Getenv("GODWIT_GOLDEN"); dir != "" {
		return dir
	}
	return filepath.Join(testdata(), "..", "..", "..", "shared", "golden")
}
