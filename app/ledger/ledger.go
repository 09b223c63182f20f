// Package ledger records how much memory each process of one user has reserved
// and not touched yet. The system still counts such memory as free.
package ledger

import (
	"context"
	"crypto/rand"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit/engine/fetch"
)

// patience is how long a load waits for another process that is reserving
// memory.
const patience = 5 * time.Second

// A process has a file with its bytes in decimal, and beside it a lock file,
// whose lock the system releases when the process ends.
const (
	lockSuffix  = ".lock"
	partSuffix  = ".part" // file of a number that is being written
	reserveLock = "reserve"
)

// Ledger is one process's entry in a folder that all of them share. It is safe
// for concurrent use.
type Ledger struct {
	dir, name string
	mu        sync.Mutex
	unlock    func() // nil: no entry yet
}

// New returns a ledger in a folder. The folder and the entry are created when
// memory is reserved.
func New(dir string) *Ledger { return &Ledger{dir: dir, name: rand.Text()} }

// Alone calls f with the bytes that other processes have reserved and not
// touched. No other process is in a call of f at that time. If the folder cannot
// be used, f gets 0, so that a load does not depend on the folder.
func (l *Ledger) Alone(f func(others int64)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if unlock, err := fetch.Lock(ctx, filepath.Join(l.dir, reserveLock)); err == nil {
		defer unlock()
	}
	f(l.Others())
}

// Others returns the bytes that other processes have reserved and not touched.
// It removes the files of processes that have ended.
func (l *Ledger) Others() int64 {
	list, _ := filepath.Glob(filepath.Join(l.dir, "*"+lockSuffix))
	sum := int64(0)
	for _, lock := range list {
		path := strings.TrimSuffix(lock, lockSuffix)
		if filepath.Base(path) == l.name {
			continue
		}
		if unlock, ok, err := fetch.TryLock(lock); ok || err != nil {
			if ok {
				_ = os.Remove(path)
				_ = os.Remove(path + partSuffix)
				_ = os.Remove(lock)
				unlock()
			}
			continue
		}
		if n := read(path); n <= math.MaxInt64-sum {
			sum += n
		}
	}
	return sum
}

// read returns the number in a file, or 0.
func read(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 20 {
		return 0
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// Publish sets this process's own bytes.
func (l *Ledger) Publish(own int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := filepath.Join(l.dir, l.name)
	if l.unlock == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		unlock, err := fetch.Lock(ctx, path+lockSuffix) // another process may be reading it now
		if err != nil {
			return
		}
		l.unlock = unlock
	}
	part := path + partSuffix
	if os.WriteFile(part, []byte(strconv.FormatInt(own, 10)), 0o600) == nil {
		_ = os.Rename(part, path)
	}
}

// Close removes this process's entry.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlock == nil {
		return
	}
	path := filepath.Join(l.dir, l.name)
	_ = os.Remove(path)
	_ = os.Remove(path + lockSuffix)
	l.unlock()
	l.unlock = nil
}
