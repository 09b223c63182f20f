package keys

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookPause is how often the file is checked for changes.
const lookPause = 250 * time.Millisecond

// savePause is how often the used tokens are saved.
const savePause = 5 * time.Second

// Book holds the keys of a running server. It follows its file: a new key is valid
// within a second, and the requests of a revoked key end immediately. Its methods are
// safe for concurrent use. A nil Book has no keys.
type Book struct {
	path, used string
	log        *slog.Logger

	mu      sync.Mutex
	grants  map[string]*Grant // grants by hash of the key
	ever    bool              // the file has had keys
	info    fs.FileInfo       // the file when it was last read; nil without a file
	settled bool              // the file is older than the clock's resolution
	caches  func(most map[string]int64)
}

// spent is the file of used tokens.
type spent struct {
	Day    string           `json:"day"`
	Tokens map[string]int64 `json:"tokens"` // used tokens by name of the key
}

// Open reads a file of keys, which need not exist. used is the file that keeps the
// used tokens of the day across restarts.
func Open(path, used string, log *slog.Logger) (*Book, error) {
	b := &Book{path: path, used: used, log: log, grants: map[string]*Grant{}}
	if err := b.look(); err != nil {
		return nil, err
	}
	var s spent
	data, err := os.ReadFile(used)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("used tokens of API keys not read, today's count starts at 0", "err", err)
	}
	for _, g := range b.grants {
		g.day, g.tokens = s.Day, max(s.Tokens[g.Name()], 0)
	}
	return b, nil
}

// Caches calls apply with the limits of cache bytes by hash of the key, now and when the
// file changes.
func (b *Book) Caches(apply func(most map[string]int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.caches = apply
	b.limitCaches()
}

// limitCaches reports the limits of cache bytes. The caller holds b.mu.
func (b *Book) limitCaches() {
	if b.caches == nil {
		return
	}
	most := map[string]int64{}
	for h, g := range b.grants {
		if n := g.cache(); n > 0 {
			most[h] = n
		}
	}
	b.caches(most)
}

// Required reports whether requests need a key. Once they do, they also need one
// after the last key is revoked.
func (b *Book) Required() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ever
}

// Find returns the grant of a secret, or nil if the secret is not a key.
func (b *Book) Find(secret string) *Grant {
	if b == nil || secret == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grants[hash(secret)] // a lookup by hash, so that its duration reveals nothing about the secret
}

// Follow applies changes of the file and saves used tokens until ctx ends.
func (b *Book) Follow(ctx context.Context) {
	look, save := time.NewTicker(lookPause), time.NewTicker(savePause)
	defer look.Stop()
	defer save.Stop()
	for {
		select {
		case <-ctx.Done():
			b.save()
			return
		case <-save.C:
			b.save()
		case <-look.C:
			if err := b.look(); err != nil {
				b.log.Warn("API keys not read again, the old ones stay valid", "err", err)
			}
		}
	}
}

// look reads the file if it has changed.
func (b *Book) look() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Stat(b.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		info = nil
	}
	if (info == nil) == (b.info == nil) && (info == nil || b.settled && os.SameFile(info, b.info) && info.ModTime().Equal(b.info.ModTime()) && info.Size() == b.info.Size()) {
		return nil
	}
	// A file can change twice within the resolution of its time.
	b.info, b.settled = info, info == nil || time.Since(info.ModTime()) > time.Second
	c, err := read(b.path)
	if err != nil {
		return err
	}
	b.apply(c.Keys)
	return nil
}

// apply replaces the keys. It keeps the usage of known keys.
func (b *Book) apply(list []Key) {
	now := make(map[string]*Grant, len(list))
	for _, k := range list {
		g := b.grants[k.Hash]
		if g == nil {
			g = &Grant{}
			g.life, g.end = context.WithCancel(context.Background())
		}
		g.set(k)
		now[k.Hash] = g
	}
	for h, g := range b.grants {
		if now[h] == nil {
			g.end()
		}
	}
	b.grants = now
	b.ever = b.ever || len(list) > 0
	b.limitCaches()
}

// save writes the tokens that keys have used today.
func (b *Book) save() {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := spent{Day: day(time.Now()), Tokens: map[string]int64{}}
	changed := false
	for _, g := range b.grants {
		n, fresh := g.usedOn(s.Day)
		changed = changed || fresh
		if n > 0 {
			s.Tokens[g.Name()] = n
		}
	}
	if !changed {
		return
	}
	data, err := json.Marshal(&s)
	if err == nil {
		err = replace(b.used, data)
	}
	if err != nil {
		b.log.Warn("used tokens of API keys not saved", "err", err)
	}
}
