package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// KeepPrefix records the key of an answer's text in the prefix store.
func (s *Store) KeepPrefix(ctx context.Context, message int64, key []byte) error {
	return s.write(ctx, fmt.Sprintf("keep prefix of message %d", message), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO prefix(message, key) VALUES (?, ?)", message, key)
		return err
	})
}

// Prefixes returns the keys of a chat's texts in the prefix store, the newest first.
func (s *Store) Prefixes(ctx context.Context, chat int64) (keys [][]byte, err error) {
	err = s.each(ctx, "SELECT key FROM prefix JOIN message ON id = message WHERE chat = ? ORDER BY id DESC", []any{chat}, func(r row) error {
		var key []byte
		err := r.Scan(&key)
		keys = append(keys, key)
		return err
	})
	return keys, s.fault(fmt.Sprintf("prefixes of chat %d", chat), err)
}

// removeStates deletes the files of packed chats that older versions wrote.
func (s *Store) removeStates() error {
	dir := filepath.Join(filepath.Dir(s.path), "states")
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		if ours, _ := filepath.Match("chat-*.kv", f.Name()); !ours {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.fault("remove old states", err)
		}
	}
	if err != nil {
		return s.fault("remove old states", err)
	}
	_ = os.Remove(dir) // the folder remains if it contains anything else
	return nil
}
