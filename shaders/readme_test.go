package shaders

import (
	"os"
	"strings"
	"testing"
)

// TestReadme compares the README's example with the source, and its words with the
// header.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := sources.ReadFile("matvec.h")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```c++\n"+string(example)+"```\n") {
		t.Error("the example differs from matvec.h")
	}
	table, err := os.ReadFile("table.go")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(page), "```go\n")
	row, _, _ = strings.Cut(row, "```")
	if row = "\t" + strings.ReplaceAll(strings.TrimSuffix(row, "\n"), "\n", "\n\t"); !strings.Contains(string(table), row) {
		t.Errorf("table.go has no\n%s", row)
	}
}
