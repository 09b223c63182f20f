package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// rotating is a file that is rotated when it is full. FILE becomes FILE.1, FILE.1
// becomes FILE.2, and the oldest is removed. It is safe for concurrent use. A
// write that fails (disk full, folder gone) is dropped, and the next one tries
// again, because a log must not stop the program.
type rotating struct {
	path  string
	limit int64
	keep  int

	mu     sync.Mutex
	file   *os.File // nil after Close, or if it cannot be opened
	size   int64
	closed bool
}

func openRotating(path string, limit int64, keep int) (*rotating, error) {
	if limit <= 0 {
		limit = 4 << 20
	}
	if keep <= 0 {
		keep = 3
	}
	r := &rotating{path: path, limit: limit, keep: keep}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return r, nil
}

// open opens the file for appending.
func (r *rotating) open() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.size = f, info.Size()
	return nil
}

// Write writes one line. It always reports success, as the type documents.
func (r *rotating) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return len(line), nil
	}
	if r.file != nil && r.size > 0 && r.size+int64(len(line)) > r.limit {
		r.rotate()
	}
	if r.file == nil && r.open() != nil {
		return len(line), nil
	}
	n, err := r.file.Write(line)
	r.size += int64(n)
	if err != nil {
		r.drop()
	}
	return len(line), nil
}

// rotate renames the full file and leaves r without an open one. If the rename
// fails, the file is emptied instead, so that the limit holds.
func (r *rotating) rotate() {
	r.drop()
	for i := r.keep; i > 0; i-- {
		from := r.path
		if i > 1 {
			from = r.aside(i - 1)
		}
		err := os.Rename(from, r.aside(i))
		if i == 1 && err != nil && !errors.Is(err, fs.ErrNotExist) && os.Truncate(r.path, 0) != nil {
			r.closed = true
		}
	}
}

func (r *rotating) aside(i int) string { return fmt.Sprintf("%s.%d", r.path, i) }

// drop closes the file. A line that cannot be written is lost.
func (r *rotating) drop() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// Close closes the file permanently.
func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
