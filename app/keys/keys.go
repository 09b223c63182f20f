// Package keys keeps named API keys: a file with the hash and the limits of each
// key, and what each key has used today. The keys themselves are not stored.
//
//	secret, err := keys.Add(ctx, path, keys.Key{Name: "build", Limits: keys.Limits{Requests: 60}})
//	book, err := keys.Open(path, used, log)
//	go book.Follow(ctx)              // notices changes of the file
//	grant := book.Find(secret)       // nil for an unknown key
//	err = grant.Admit(time.Now())    // counts a request
//	ok := grant.Spend(now, tokens)   // counts tokens
package keys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"godwit/engine/fetch"
)

// FileName is the usual name of the file in the folder of settings.
const FileName = "keys.json"

// Limits of the file.
const (
	maxBytes = 4 << 20
	maxKeys  = 10000
	version  = 1
)

// Errors of a file of keys and of its commands.
var (
	ErrName    = errors.New("invalid name of a key")
	ErrTaken   = errors.New("a key with this name exists")
	ErrLimit   = errors.New("invalid limit of a key")
	ErrUnknown = errors.New("no key has this name")
	ErrDamaged = errors.New("the file of API keys is damaged")
)

// Limits are the limits of a key. A zero limit does not apply.
type Limits struct {
	Models   []string `json:"models,omitempty"`              // names of models; a name that ends in * matches all names with this beginning
	Requests int      `json:"requests_per_minute,omitempty"` // requests in any 60 seconds
	Tokens   int64    `json:"tokens_per_day,omitempty"`      // prompt and answer tokens of a day in UTC
	Cache    int64    `json:"cache_bytes,omitempty"`         // bytes of stored prompts in memory, and the same number on disk
}

// Key is a named key.
type Key struct {
	Name string    `json:"name"`
	Hash string    `json:"sha256"` // hash of the key, in hex
	Made time.Time `json:"made"`
	Limits
}

// content is the content of a file of keys.
type content struct {
	Version int   `json:"version"`
	Keys    []Key `json:"keys"`
}

// names matches the names that a log line can contain without quotes.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// check returns an error for an invalid key.
func (k *Key) check() error {
	hash, err := hex.DecodeString(k.Hash)
	switch {
	case !names.MatchString(k.Name):
		return fmt.Errorf("%w: %.80q; it has 1 to 64 letters, digits, dots, dashes, underscores and @", ErrName, k.Name)
	case err != nil || len(hash) != sha256.Size:
		return fmt.Errorf("%w: key %s has no SHA-256 hash", ErrDamaged, k.Name)
	case k.Requests < 0 || k.Requests > maxRequests || k.Tokens < 0 || k.Cache < 0:
		return fmt.Errorf("%w %s: %d requests a minute, %d tokens a day, %d bytes of cache; at most %d requests are possible, and none may be negative", ErrLimit, k.Name, k.Requests, k.Tokens, k.Cache, maxRequests)
	}
	return nil
}

// Add adds a key to a file, which need not exist, and returns the secret that
// clients send. Only Name and Limits of k are used.
func Add(ctx context.Context, path string, k Key) (secret string, err error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	secret = "gw-" + base64.RawURLEncoding.EncodeToString(raw)
	k.Hash, k.Made = hash(secret), time.Now().UTC().Truncate(time.Second)
	if err := k.check(); err != nil {
		return "", err
	}
	return secret, change(ctx, path, func(c *content) error {
		if slices.ContainsFunc(c.Keys, func(o Key) bool { return o.Name == k.Name }) {
			return fmt.Errorf("%w: %s", ErrTaken, k.Name)
		}
		if len(c.Keys) == maxKeys {
			return fmt.Errorf("the file has %d keys, which is the limit", maxKeys)
		}
		c.Keys = append(c.Keys, k)
		return nil
	})
}

// Revoke removes the key with a name.
func Revoke(ctx context.Context, path, name string) error {
	return change(ctx, path, func(c *content) error {
		n := len(c.Keys)
		c.Keys = slices.DeleteFunc(c.Keys, func(k Key) bool { return k.Name == name })
		if len(c.Keys) == n {
			return fmt.Errorf("%w: %.80q", ErrUnknown, name)
		}
		return nil
	})
}

// List returns the keys of a file, oldest first. Without a file, the list is empty.
func List(path string) ([]Key, error) {
	c, err := read(path)
	return c.Keys, err
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// read reads a file of keys and checks it. A file with one invalid key is damaged
// as a whole, because a key that is left out could hold a limit.
func read(path string) (c content, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return content{Version: version}, nil
	}
	if err != nil {
		return c, err
	}
	if len(data) > maxBytes {
		return content{}, fmt.Errorf("%w: %s has %d bytes of at most %d", ErrDamaged, path, len(data), maxBytes)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return content{}, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	if c.Version != version || len(c.Keys) > maxKeys {
		return content{}, fmt.Errorf("%w: %s has version %d and %d keys; this version of Godwit reads version %d and %d keys", ErrDamaged, path, c.Version, len(c.Keys), version, maxKeys)
	}
	seen := map[string]bool{}
	for i := range c.Keys {
		k := &c.Keys[i]
		if err := k.check(); err != nil {
			return content{}, fmt.Errorf("%s: %w", path, err)
		}
		if seen[k.Name] || seen[k.Hash] {
			return content{}, fmt.Errorf("%w: %s has key %s twice", ErrDamaged, path, k.Name)
		}
		seen[k.Name], seen[k.Hash] = true, true
	}
	return c, nil
}

// change rewrites a file under a lock that excludes other processes.
func change(ctx context.Context, path string, do func(*content) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := fetch.Lock(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	c, err := read(path)
	if err != nil {
		return err
	}
	if err := do(&c); err != nil {
		return err
	}
	data, err := json.MarshalIndent(&c, "", "\t")
	if err != nil {
		return err
	}
	return replace(path, append(data, '\n'))
}

// replace writes a file with mode 0600, so that readers see either the old or the new
// content.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
