package keys

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

// add adds a key and returns its secret.
func add(t *testing.T, path string, k Key) string {
	t.Helper()
	secret, err := Add(t.Context(), path, k)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// open opens a book and follows its file.
func open(t *testing.T, path, used string) *Book {
	t.Helper()
	b, err := Open(path, used, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var follower sync.WaitGroup
	follower.Go(func() { b.Follow(ctx) })
	t.Cleanup(func() {
		cancel()
		follower.Wait()
	})
	return b
}

// The file has hashes and mode 0600, and never a secret.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings", FileName)
	secret := add(t, path, Key{Name: "build", Limits: Limits{Models: []string{"a", "b*"}, Requests: 3, Tokens: 9}})
	if _, err := Add(t.Context(), path, Key{Name: "build"}); !errors.Is(err, ErrTaken) {
		t.Errorf("the same name again: %v", err)
	}
	for _, name := range []string{"", "a b", "a\nb", "-x", strings.Repeat("x", 65), "ä"} {
		if _, err := Add(t.Context(), path, Key{Name: name}); !errors.Is(err, ErrName) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := Add(t.Context(), path, Key{Name: "x", Limits: Limits{Tokens: -1}}); !errors.Is(err, ErrLimit) {
		t.Errorf("a negative limit: %v", err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), secret) {
		t.Errorf("the file is %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	list, err := List(path)
	if err != nil || len(list) != 1 || list[0].Name != "build" || list[0].Requests != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := Revoke(t.Context(), path, "other"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown name: %v", err)
	}
}

// A damaged file is an error, never an empty list.
func TestDamagedFile(t *testing.T) {
	good := `{"version":1,"keys":[{"name":"a","sha256":"` + hash("x") + `","made":"2026-01-01T00:00:00Z"}]}`
	for _, data := range []string{
		"", "null garbage", good[:len(good)-3], `{"version":2,"keys":[]}`, strings.Replace(good, "sha256", "sha512", 1),
		strings.Replace(good, hash("x"), "00", 1), strings.Replace(good, `"a"`, `"a b"`, 1),
		`{"version":1,"keys":[` + strings.Repeat(good[strings.Index(good, `{"name"`):len(good)-2]+",", 1) + good[strings.Index(good, `{"name"`):len(good)-2] + `]}`,
	} {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, path+".used", quiet); err == nil {
			t.Errorf("%q is accepted", data)
		}
		if _, err := Add(t.Context(), path, Key{Name: "new"}); err == nil {
			t.Errorf("a key is added to %q", data)
		}
	}
}

// A running server notices keys that are added and revoked. If the file is damaged, the
// keys stay valid. If the file disappears, no key is valid, but keys are still required.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	b := open(t, path, path+".used")
	if b.Required() || b.Find("") != nil {
		t.Error("without a file a key is required")
	}
	one := add(t, path, Key{Name: "one"})
	until(t, func() bool { return b.Find(one) != nil && b.Required() })
	two := add(t, path, Key{Name: "two"})
	until(t, func() bool { return b.Find(two) != nil })
	ctx, stop := b.Find(one).While(t.Context())
	defer stop()
	if Of(ctx).Name() != "one" || ctx.Err() != nil {
		t.Errorf("%q, %v", Of(ctx).Name(), ctx.Err())
	}
	kept := b.Find(two)
	if err := Revoke(t.Context(), path, "one"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the request of a revoked key continues")
	}
	if !errors.Is(context.Cause(ctx), ErrRevoked) || b.Find(one) != nil || b.Find(two) != kept {
		t.Errorf("%v", context.Cause(ctx))
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * lookPause)
	if b.Find(two) != kept {
		t.Error("a damaged file revokes keys")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return b.Find(two) == nil })
	if !b.Required() {
		t.Error("without a file no key is required any more")
	}
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the change was not noticed")
		}
	}
}

// With 16 concurrent clients, exactly the allowed requests and tokens pass.
func TestLimitsTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	secret := add(t, path, Key{Name: "k", Limits: Limits{Requests: 50, Tokens: 1000}})
	g := open(t, path, path+".used").Find(secret)
	now := time.Date(2026, 5, 1, 23, 59, 0, 0, time.UTC)
	var admitted, spent atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for range 20 {
				if g.Admit(now) == nil {
					admitted.Add(1)
				}
			}
			for range 100 {
				if g.Spend(now, 3) == nil {
					spent.Add(3)
				}
			}
		})
	}
	clients.Wait()
	if admitted.Load() != 50 || spent.Load() != 999 {
		t.Errorf("%d requests and %d tokens passed", admitted.Load(), spent.Load())
	}
	var over *LimitError
	if err := g.Admit(now.Add(59 * time.Second)); !errors.As(err, &over) || over.Retry != time.Second {
		t.Errorf("within the minute: %v", err)
	}
	if err := g.Spend(now, 2); !errors.As(err, &over) || over.Retry != time.Minute || !strings.Contains(err.Error(), "1000 tokens a day") {
		t.Errorf("the last token: %v", err)
	}
	next := now.Add(time.Minute)
	if g.Admit(next) != nil || g.Spend(next, 1000) != nil || g.Spend(next, 1) == nil {
		t.Error("a minute and a day later the limits are not fresh")
	}
}

// Used tokens survive a restart.
func TestUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	secret := add(t, path, Key{Name: "k", Limits: Limits{Tokens: 10}})
	b, err := Open(path, path+".used", quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Find(secret).Spend(time.Now(), 7); err != nil {
		t.Fatal(err)
	}
	before := day(time.Now())
	b.save()
	if b, err = Open(path, path+".used", quiet); err != nil {
		t.Fatal(err)
	}
	if err := b.Find(secret).Spend(time.Now(), 4); err == nil && day(time.Now()) == before {
		t.Error("after a restart the tokens of the day are forgotten")
	}
}

func TestAllows(t *testing.T) {
	g := &Grant{key: Key{Limits: Limits{Models: []string{"smol", "gemma-*"}}}}
	for model, want := range map[string]bool{"smol": true, "smol2": false, "gemma-3": true, "gemma": false, "": false} {
		if g.Allows(model) != want {
			t.Errorf("%q: %v", model, !want)
		}
	}
	var all *Grant
	if !all.Allows("any") || all.Admit(time.Now()) != nil || all.Spend(time.Now(), 1<<40) != nil || all.Name() != "" {
		t.Error("a nil grant has limits")
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"keys":[{"name":"a","sha256":"` + hash("x") + `","made":"2026-01-01T00:00:00Z","models":["m"]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := List(path)
		if err != nil && len(list) > 0 {
			t.Errorf("%d keys of a damaged file", len(list))
		}
		for i := range list {
			if err := list[i].check(); err != nil {
				t.Error(err)
			}
		}
	})
}
