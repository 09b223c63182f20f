package telemetry

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lines of the audit log are JSON objects with the time in UTC. A later start appends.
func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for range 2 {
		a, err := OpenAudit(path)
		if err != nil {
			t.Fatal(err)
		}
		a.Write("status", 200, "key", "a\nb")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		a.Write("status", 500)
	}
	var none *Audit
	none.Write("status", 200)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), data)
	}
	for _, line := range lines {
		var x map[string]any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, x["time"].(string))
		if err != nil || at.Location() != time.UTC || len(x) != 3 || x["status"] != 200.0 || x["key"] != "a\nb" {
			t.Errorf("%s, %v", line, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := OpenAudit(filepath.Join(path, "below")); err == nil {
		t.Error("a file below a file is opened")
	}
}
