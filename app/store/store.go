// Package store keeps chats and presets in one SQLite database.
//
// A chat is a tree of messages. Editing a message or generating another answer
// starts a new branch. Each message records which of its answers is visible.
//
//	s, err := store.Open(path, store.Options{})
//	chat, err := s.CreateChat(ctx, store.Chat{Model: "demo"})
//	q, err := s.Append(ctx, store.Message{Chat: chat.ID, Role: store.User, Content: "Hello"})
//	draft, err := s.Begin(ctx, store.Message{Chat: chat.ID, Parent: q.ID, Role: store.Assistant})
//	... draft.Save while tokens arrive, then draft.Finish
//	page, err := s.Path(ctx, chat.ID, store.Page{})
//
// Every change is one transaction, which is stored completely. If it returns an
// error, nothing is stored. A Store is safe for concurrent use, and two
// processes may open the same database.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Classes of errors.
var (
	ErrNotFound = errors.New("not found")
	ErrInput    = errors.New("bad input")
	ErrFull     = errors.New("disk full")
	ErrDamaged  = errors.New("damaged database")
	ErrNewer    = errors.New("database of a newer Godwit")
)

// Options configures Open. The zero value works.
type Options struct {
	Now func() time.Time // clock; nil selects time.Now

	maxPages int // maximum number of pages in the database, to test a full disk
}

func (o Options) defaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is an open database.
type Store struct {
	path    string
	db      *sql.DB
	anchor  *sql.Conn // keeps a database in memory; nil for a file
	private bool      // whether the database is in memory
	now     func() time.Time
	damaged atomic.Bool

	writing sync.Mutex // allows one writing transaction at a time, because SQLite does too
	drafts  drafts
}

// Damage reports a database that could not be used. The database was renamed, not
// deleted, and the Store returned with this error is empty.
type Damage struct {
	Path  string // original path
	Aside string // new path
	Cause error
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%v: %s: %v; moved to %s, a new one is in use", ErrDamaged, d.Path, d.Cause, d.Aside)
}

func (d *Damage) Unwrap() []error { return []error{ErrDamaged, d.Cause} }

// Open opens or creates the database at path and updates an older schema. If the
// database is damaged, Open renames it and returns an empty Store together with a
// *Damage error.
func Open(path string, o Options) (*Store, error) {
	o = o.defaults()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("chats: %w", err)
	}
	s, err := open(path, o)
	if err == nil || !errors.Is(err, ErrDamaged) {
		return s, err
	}
	damage := &Damage{Path: path, Cause: err}
	if damage.Aside, err = setAside(path, o.Now()); err != nil {
		return nil, errors.Join(damage.Cause, err)
	}
	if s, err = open(path, o); err != nil {
		return nil, err
	}
	return s, damage
}

// open opens the database or creates it.
func open(path string, o Options) (*Store, error) {
	db, err := openDB(dsn(path, o.maxPages))
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, db: db, now: o.Now}
	ctx := context.Background()
	check := needsCheck(path)
	err = s.migrate(ctx)
	if err == nil && check {
		err = s.check(ctx)
	}
	if err == nil {
		err = s.recover(ctx)
	}
	if err != nil {
		return nil, errors.Join(s.fault("open", err), db.Close())
	}
	return s, nil
}

func openDB(dsn string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("chats: %w", err)
	}
	db.SetMaxOpenConns(4)
	return db, nil
}

// dsn returns the driver's address of the database. Each write waits up to half a
// minute for another process, which may be importing chats. Because of the
// write-ahead log, a crash of the program loses no data, and a crash of the machine
// loses at most the last moments.
func dsn(path string, maxPages int) string {
	slashed := filepath.ToSlash(path)
	if filepath.IsAbs(path) && !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // paths on Windows begin with a drive, such as C:/
	}
	pragmas := []string{
		"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)",
		"secure_delete(1)", "trusted_schema(0)", "cell_size_check(1)",
	}
	if maxPages > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", maxPages))
	}
	query := url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}
	return "file:" + (&url.URL{Path: slashed}).EscapedPath() + "?" + query.Encode()
}

// Close closes the database.
func (s *Store) Close() error {
	var mark error
	if s.damaged.Load() && !s.private {
		mark = os.WriteFile(s.path+checkMark, nil, 0o600)
	}
	if s.anchor != nil {
		return errors.Join(s.anchor.Close(), s.db.Close())
	}
	return errors.Join(mark, s.db.Close())
}

// write runs fn in a transaction. name describes the operation in errors.
func (s *Store) write(ctx context.Context, name string, fn func(tx *sql.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.fault(name, err)
	}
	if err := fn(tx); err != nil {
		if rollback := tx.Rollback(); rollback != nil && !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
		}
		return s.fault(name, err)
	}
	return s.fault(name, tx.Commit())
}

// fault adds the error class and the operation's name to a driver's error.
func (s *Store) fault(name string, err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{ErrNotFound, ErrInput, ErrFull, ErrDamaged, ErrNewer} {
		if errors.Is(err, class) {
			return fmt.Errorf("chats: %s: %w", name, err)
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("chats: %s: %w", name, ErrNotFound)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("chats: %s: %w: %w", name, ErrFull, err)
	}
	var code *sqlite.Error
	if errors.As(err, &code) {
		switch code.Code() & 0xff {
		case lib.SQLITE_FULL:
			return fmt.Errorf("chats: %s: %w: free some space and try again; nothing stored is lost (%w)", name, ErrFull, err)
		case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
			s.damaged.Store(true)
			return fmt.Errorf("chats: %s: %w: %w", name, ErrDamaged, err)
		}
	}
	return fmt.Errorf("chats: %s: %w", name, err)
}

// millis returns the current time in the form of the database.
func (s *Store) millis() int64 { return s.now().UnixMilli() }
