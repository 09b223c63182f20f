package fetch

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// TryLock takes the lock file at path if neither this process nor another holds it.
// The file stays in place. The system releases the lock when its holder ends,
// however that happens.
func TryLock(path string) (unlock func(), ok bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, false, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, false, err
	}
	unlock = func() { f.Close() } // closing releases the lock; nothing was written
	if !tryLock(f) {
		unlock()
		return nil, false, nil
	}
	return unlock, true, nil
}

// Lock is TryLock, but waits for the lock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, ok, err := TryLock(path)
		if ok || err != nil {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
