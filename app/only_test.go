package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit/app/api/page"
	"godwit/app/cli"
)

// TestOnly starts twice. The second start finds the first one and brings it to
// the front.
func TestOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	fresh := func() *only {
		return &only{lock: filepath.Join(dir, "window.lock"), where: filepath.Join(dir, "window.json")}
	}
	first, second := fresh(), fresh()
	if ok, err := first.acquire(); !ok || err != nil {
		t.Fatalf("the first start: %v, %v", ok, err)
	}
	if ok, err := second.acquire(); ok || err != nil {
		t.Fatalf("the second start: %v, %v", ok, err)
	}
	var focused, token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		focused, token = r.Method+" "+r.URL.Path, r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	// The first start is slow to open, and the second waits for it.
	time.AfterFunc(300*time.Millisecond, func() {
		if err := first.tell(page.Config{Base: server.URL, Token: "secret"}); err != nil {
			t.Error(err)
		}
	})
	if err := second.focus(context.Background()); err != nil {
		t.Fatal(err)
	}
	if focused != "POST /app/native/focus" || token != "Bearer secret" {
		t.Errorf("asked %q with %q", focused, token)
	}
	info, err := os.Stat(first.where)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the token: %v, %v", info.Mode(), err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	if ok, err := second.acquire(); !ok || err != nil {
		t.Fatalf("after the first has gone: %v, %v", ok, err)
	}
	if err := second.release(); err != nil {
		t.Fatal(err)
	}
}

// TestDeadWindow finds the file of a window that has crashed.
func TestDeadWindow(t *testing.T) {
	dir := t.TempDir()
	o := &only{lock: filepath.Join(dir, "lock"), where: filepath.Join(dir, "where")}
	data, err := json.Marshal(page.Config{Base: "http://127.0.0.1:1", Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.where, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := o.acquire(); !ok || err != nil {
		t.Errorf("a file without a lock keeps a window from starting: %v, %v", ok, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := o.focus(ctx); err == nil {
		t.Error("a window that is not there came to the front")
	}
	if err := o.release(); err != nil {
		t.Fatal(err)
	}
}

func TestLanguage(t *testing.T) {
	const english = "en_US.UTF-8"
	for _, c := range []struct {
		env  map[string]string
		want map[string]string
	}{
		{nil, map[string]string{"LANG": english}},
		{map[string]string{"LANG": ""}, map[string]string{"LANG": english}},
		{map[string]string{"LANG": "C"}, map[string]string{"LANG": english}},
		{map[string]string{"LANG": "POSIX"}, map[string]string{"LANG": english}},
		{map[string]string{"LANG": "C.UTF-8"}, map[string]string{"LANG": english}},
		{map[string]string{"LANG": "de_DE.UTF-8"}, nil},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, map[string]string{"LC_ALL": english}},
		{map[string]string{"LC_ALL": "fr_FR.UTF-8", "LANG": "C"}, nil},
		{map[string]string{"LC_MESSAGES": "C", "LANG": "C"}, map[string]string{"LC_MESSAGES": english, "LANG": english}},
	} {
		got := cli.Language(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if len(got) != len(c.want) {
			t.Errorf("%v: set %v, want %v", c.env, got, c.want)
			continue
		}
		for k, v := range c.want {
			if got[k] != v {
				t.Errorf("%v: %s=%q, want %q", c.env, k, got[k], v)
			}
		}
	}
}
