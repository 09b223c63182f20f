package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// State is the packed KV state of a chat. It is saved so that a long conversation
// continues without processing its text again.
type State struct {
	Chat    int64     `json:"chat"`
	Message int64     `json:"message"` // last message that the state covers
	Tokens  int       `json:"tokens"`
	Bytes   int64     `json:"bytes"`
	Key     string    `json:"key"` // model and cache types of the state
	Used    time.Time `json:"used"`

	file string
}

const stateSuffix = ".kv"

// defaultBudget is the size limit of all states if Options do not set one.
const defaultBudget = 4 << 30

// SetStateBudget changes the limit for the total size of all states, starting with
// the next SaveState. 0 is 4 GiB, and a negative number keeps no states.
func (s *Store) SetStateBudget(bytes int64) {
	if bytes == 0 {
		bytes = defaultBudget
	}
	s.budget.Store(max(bytes, 0))
}

// SaveState stores the state of a chat and replaces an older one. write writes the
// state. SaveState then removes the least recently used states until all fit the
// budget. A state that exceeds the budget alone gives ErrFull and is not kept. The
// old state stays until the new one is completely on disk.
func (s *Store) SaveState(ctx context.Context, st State, write func(io.Writer) error) (State, error) {
	name := fmt.Sprintf("save state of chat %d", st.Chat)
	tmp, err := os.CreateTemp(s.states, fmt.Sprintf("chat-%d-*%s", st.Chat, stateSuffix))
	if err != nil {
		return st, s.fault(name, err)
	}
	st.file, st.Used = filepath.Base(tmp.Name()), time.UnixMilli(s.millis())
	counted := &limitedWriter{w: tmp, left: s.budget.Load()}
	err = write(counted)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	st.Bytes = counted.n
	if err != nil {
		return st, s.fault(name, errors.Join(err, os.Remove(tmp.Name())))
	}
	old, err := s.recordState(ctx, name, st)
	if err != nil {
		return st, errors.Join(err, os.Remove(tmp.Name()))
	}
	return st, errors.Join(s.removeState(old), s.trimStates(ctx))
}

// limitedWriter stops writing a state that is larger than the whole budget.
type limitedWriter struct {
	w       io.Writer
	n, left int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, fmt.Errorf("%w: the state is larger than the limit of %d bytes for all states", ErrFull, l.n+l.left)
	}
	n, err := l.w.Write(p)
	l.n += int64(n)
	l.left -= int64(n)
	return n, err
}

// recordState stores the row of a state and returns the file of the previous one.
func (s *Store) recordState(ctx context.Context, name string, st State) (old string, err error) {
	err = s.write(ctx, name, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT file FROM state WHERE chat = ?", st.Chat).Scan(&old)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var one int
		if err := tx.QueryRowContext(ctx, "SELECT 1 FROM chat WHERE id = ?", st.Chat).Scan(&one); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO state(chat, file, message, tokens, bytes, key, used) VALUES (?, ?, ?, ?, ?, ?, ?)",
			st.Chat, st.file, st.Message, st.Tokens, st.Bytes, st.Key, st.Used.UnixMilli())
		return err
	})
	return old, err
}

const stateColumns = "chat, file, message, tokens, bytes, key, used"

func scanState(r row) (State, error) {
	var st State
	var used int64
	err := r.Scan(&st.Chat, &st.file, &st.Message, &st.Tokens, &st.Bytes, &st.Key, &used)
	st.Used = time.UnixMilli(used)
	return st, err
}

// State describes the saved state of a chat. It returns ErrNotFound if there is
// none.
func (s *Store) State(ctx context.Context, chat int64) (State, error) {
	st, err := scanState(s.db.QueryRowContext(ctx, "SELECT "+stateColumns+" FROM state WHERE chat = ?", chat))
	return st, s.fault(fmt.Sprintf("state of chat %d", chat), err)
}

// OpenState opens the saved state of a chat for reading and marks it as used. If
// the file is missing, it deletes the record and returns ErrNotFound.
func (s *Store) OpenState(ctx context.Context, chat int64) (State, io.ReadSeekCloser, error) {
	st, err := s.State(ctx, chat)
	if err != nil {
		return st, nil, err
	}
	file, err := os.Open(filepath.Join(s.states, st.file))
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil, errors.Join(s.fault(fmt.Sprintf("state of chat %d", chat), ErrNotFound), s.DropState(ctx, chat))
	} else if err != nil {
		return st, nil, s.fault(fmt.Sprintf("state of chat %d", chat), err)
	}
	err = s.write(ctx, fmt.Sprintf("state of chat %d", chat), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE state SET used = ? WHERE chat = ?", s.millis(), chat)
		return err
	})
	if err != nil {
		return st, nil, errors.Join(err, file.Close())
	}
	return st, file, nil
}

// DropState deletes the saved state of a chat, if there is one.
func (s *Store) DropState(ctx context.Context, chat int64) error {
	var file string
	err := s.write(ctx, fmt.Sprintf("drop state of chat %d", chat), func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "DELETE FROM state WHERE chat = ? RETURNING file", chat).Scan(&file)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.removeState(file)
}

// States lists the saved states, least recently used first, and their total size.
func (s *Store) States(ctx context.Context) (states []State, total int64, err error) {
	err = s.each(ctx, "SELECT "+stateColumns+" FROM state ORDER BY used, chat", nil, func(r row) error {
		st, err := scanState(r)
		states = append(states, st)
		total += st.Bytes
		return err
	})
	return states, total, s.fault("list states", err)
}

// trimStates deletes states until the rest fits the budget.
func (s *Store) trimStates(ctx context.Context) error {
	states, total, err := s.States(ctx)
	if err != nil {
		return err
	}
	for _, st := range states {
		if total <= s.budget.Load() {
			return nil
		}
		if err := s.DropState(ctx, st.Chat); err != nil {
			return err
		}
		total -= st.Bytes
	}
	return nil
}

// removeState removes the file of a state that no row refers to.
func (s *Store) removeState(file string) error {
	if file == "" {
		return nil
	}
	err := os.Remove(filepath.Join(s.states, filepath.Base(file)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.fault("remove state", err)
	}
	return nil
}

// sweepStates removes state files that belong to no chat an hour after they were
// written. Younger files may belong to another process that has not recorded them
// yet.
func (s *Store) sweepStates(ctx context.Context) error {
	known := map[string]bool{}
	states, _, err := s.States(ctx)
	if err != nil {
		return err
	}
	for _, st := range states {
		known[st.file] = true
	}
	entries, err := os.ReadDir(s.states)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), "chat-") && strings.HasSuffix(e.Name(), stateSuffix)
		info, err := e.Info()
		if !ours || known[e.Name()] || err != nil || s.now().Sub(info.ModTime()) < time.Hour {
			continue
		}
		if err := s.removeState(e.Name()); err != nil {
			return err
		}
	}
	return nil
}
