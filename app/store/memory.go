package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
)

// firstPrivate is the id before the first chat and message of a store in memory.
// JavaScript represents all ids up to 1<<53 exactly.
const firstPrivate = 1 << 50

// Private reports whether the id of a chat or message belongs to a store in
// memory.
func Private(id int64) bool { return id > firstPrivate }

// OpenMemory opens an empty store for private chats. It is kept in the memory of
// this process until Close, and nothing of it is written to disk.
func OpenMemory(o Options) (*Store, error) {
	o = o.defaults()
	pragmas := []string{"busy_timeout(30000)", "foreign_keys(1)", "secure_delete(1)", "trusted_schema(0)", "temp_store(2)"}
	query := url.Values{"vfs": {"memdb"}, "_pragma": pragmas, "_txlock": {"immediate"}}
	db, err := openDB("file:/godwit-" + rand.Text() + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	s := &Store{db: db, now: o.Now, private: true}
	// The database exists while a connection is open. The anchor is never used, so
	// that no error closes it.
	if s.anchor, err = db.Conn(ctx); err == nil {
		err = s.migrate(ctx)
	}
	if err == nil {
		err = s.write(ctx, "number private chats", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO sqlite_sequence(name, seq) VALUES ('chat', ?), ('message', ?)", firstPrivate, firstPrivate)
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(s.fault("open in memory", err), s.Close())
	}
	return s, nil
}
