package fetch

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// lock waits until no other process holds the lock file, which stays in place:
// the system drops the lock when its holder ends, however that happens.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if tryLock(f) {
			return func() { f.Close() }, nil //nolint:errcheck // closing drops the lock
		}
		select {
		case <-ctx.Done():
			f.Close() //nolint:errcheck // nothing was written
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
