package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations
var migrationFiles embed.FS

// migrations lists the steps from an empty database to the current schema, in
// order. A released step is never changed.
var migrations = readMigrations()

func readMigrations() []string {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic("store: no migrations")
	}
	number := func(name string) int {
		digits, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		n, err := strconv.Atoi(digits)
		if err != nil {
			panic("store: migration " + name)
		}
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	steps := make([]string, len(names))
	for i, name := range names {
		data, err := migrationFiles.ReadFile(name)
		if err != nil || number(name) != i+1 {
			panic("store: migration " + name)
		}
		steps[i] = string(data)
	}
	return steps
}

// migrate updates the database's schema, with all steps in one transaction.
func (s *Store) migrate(ctx context.Context) error { return s.migrateTo(ctx, len(migrations)) }

func (s *Store) migrateTo(ctx context.Context, target int) error {
	return s.write(ctx, "migrate", func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if version > len(migrations) {
			return fmt.Errorf("%w: it has schema %d, but this Godwit supports only %d; use the newer Godwit", ErrNewer, version, len(migrations))
		}
		if version >= target {
			return nil
		}
		for _, step := range migrations[version:target] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", target))
		return err
	})
}

const (
	// checkMark is the suffix of an empty file next to the database. The file
	// makes the next Open check the database, whatever its size.
	checkMark = ".check"
	// smallFile is the size of a database up to which every Open checks it.
	smallFile = 16 << 20
)

// needsCheck reports whether Open must read the whole database, because it is
// small, was not closed, or was found to be damaged.
func needsCheck(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() <= smallFile {
		return true
	}
	if _, err := os.Stat(path + checkMark); err == nil {
		return true
	}
	wal, err := os.Stat(path + "-wal")
	return err == nil && wal.Size() > 0
}

// check reads the whole database.
func (s *Store) check(ctx context.Context) error {
	var result string
	if err := s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, result)
	}
	if err := os.Remove(s.path + checkMark); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// setAside renames the files of a database and returns the new name.
func setAside(path string, now time.Time) (string, error) {
	aside := fmt.Sprintf("%s.damaged-%s", path, now.UTC().Format("20060102-150405.000"))
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, suffix := range []string{"-wal", "-shm", checkMark} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !os.IsNotExist(err) {
			return "", err
		}
	}
	return aside, nil
}

// recover cleans up after a program that ended without closing the store.
// Unfinished answers are marked as stopped, and files of older versions are removed.
func (s *Store) recover(ctx context.Context) error {
	if err := s.stopDrafts(ctx); err != nil {
		return err
	}
	return s.removeStates()
}
