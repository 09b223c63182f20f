package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"godwit/app/config"
	"godwit/app/keys"
	"godwit/engine"
)

type keyCmd struct {
	Add    keyAddCmd    `cmd:"" help:"Make a key and print it once. Only its hash is stored."`
	List   keyListCmd   `cmd:"" help:"List the names and limits of keys."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke a key. Its running requests end within a second."`
}

// keyFile selects the file of keys.
type keyFile struct {
	File string `name:"key-file" placeholder:"FILE" help:"File of keys. Empty: keys.json beside config.toml."`
}

func (f *keyFile) path(r *run) (string, error) {
	path := f.File
	if path == "" {
		set, err := r.file.Settings(r.env)
		if err != nil {
			return "", err
		}
		path = set.Server.KeyFile
	}
	return r.keyPath(path), nil
}

// keyPath returns the file of keys for a setting.
func (r *run) keyPath(set string) string {
	return cmp.Or(set, filepath.Join(r.home.Config, keys.FileName))
}

type keyAddCmd struct {
	keyFile
	Name     string      `arg:"" placeholder:"NAME" help:"Name of the key in logs and lists."`
	Models   []string    `name:"models" placeholder:"NAME" help:"Models that the key may use, separated by commas. A name that ends in * matches all names that begin so. Unset: all models."`
	Requests int         `name:"requests-per-minute" placeholder:"N" help:"Maximum requests in any 60 seconds, without those that only read (GET). 0: no limit."`
	Cache    config.Size `name:"cache" placeholder:"SIZE" help:"Maximum size of the key's stored prompts in memory, and the same size on disk. The least valuable are deleted first. 0: no limit."`
	Tokens   int64       `name:"tokens-per-day" placeholder:"N" help:"Maximum tokens of prompts and answers per day (UTC). An answer ends with an error when it reaches the limit. 0: no limit."`
}

// Run makes a key and prints it.
func (c *keyAddCmd) Run(r *run) error {
	path, err := c.path(r)
	if err != nil {
		return err
	}
	limits := keys.Limits{Models: c.Models, Requests: c.Requests, Tokens: c.Tokens, Cache: int64(c.Cache)}
	secret, err := keys.Add(r.ctx, path, keys.Key{Name: c.Name, Limits: limits})
	if errors.Is(err, keys.ErrName) || errors.Is(err, keys.ErrLimit) {
		return usage{err}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(r.out, secret)
	fmt.Fprintf(r.err, "godwit: key %s added to %s; it is not shown again\n", c.Name, path)
	return nil
}

type keyListCmd struct {
	keyFile
	JSON bool `name:"json" help:"Machine-readable output."`
}

// Run lists the keys, without secrets.
func (c *keyListCmd) Run(r *run) error {
	path, err := c.path(r)
	if err != nil {
		return err
	}
	list, err := keys.List(path)
	if err != nil {
		return err
	}
	if c.JSON {
		return r.json(append([]keys.Key{}, list...))
	}
	if len(list) == 0 {
		fmt.Fprintln(r.err, "godwit: no keys; make one with: godwit key add NAME")
		return nil
	}
	t := newTable("NAME", "MADE", "MODELS", "REQUESTS/MIN", "TOKENS/DAY", "CACHE")
	for _, k := range list {
		t.add(k.Name, k.Made.Format(time.DateOnly), cmp.Or(strings.Join(k.Models, ","), "all"), limited(int64(k.Requests)), limited(k.Tokens), cached(k.Cache))
	}
	return t.write(r.out)
}

// limited writes a limit, or a dash if it does not apply.
func limited(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// cached writes a limit of cache bytes, or a dash without one.
func cached(n int64) string {
	if n == 0 {
		return "-"
	}
	return config.Size(n).String()
}

type keyRevokeCmd struct {
	keyFile
	Name string `arg:"" placeholder:"NAME" help:"Name of the key."`
}

// Run revokes a key.
func (c *keyRevokeCmd) Run(r *run) error {
	path, err := c.path(r)
	if err != nil {
		return err
	}
	return keys.Revoke(r.ctx, path, c.Name)
}

// named opens the named keys of a server and follows their file until the host closes.
func (r *run) named(h *host, set *config.Server, kept *engine.Prefixes) (*keys.Book, error) {
	book, err := keys.Open(r.keyPath(set.KeyFile), filepath.Join(r.home.Data, "keys-used.json"), r.log)
	if err != nil {
		return nil, err
	}
	book.Caches(kept.SetLimits)
	ctx, cancel := context.WithCancel(context.Background())
	var follower sync.WaitGroup
	follower.Go(func() { book.Follow(ctx) })
	h.close = append(h.close, func() error {
		cancel()
		follower.Wait()
		return nil
	})
	return book, nil
}
