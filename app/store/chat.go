package store

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of the data in a chat.
const (
	maxTitle   = 200      // maximum runes of a title
	maxText    = 32 << 20 // maximum bytes of a message, an attachment, or a system prompt
	maxObject  = 1 << 20  // maximum bytes of settings or statistics as JSON
	autoLength = 60       // maximum runes of a title made from a message
)

// Chat is a conversation without its messages.
type Chat struct {
	ID       int64           `json:"id"`
	Title    string          `json:"title"`  // made from the first message; empty until then
	Folder   int64           `json:"folder"` // id of the folder; 0 without one
	Pinned   bool            `json:"pinned"`
	Model    string          `json:"model"`
	System   string          `json:"system"`
	Settings json.RawMessage `json:"settings" ts:"ChatSettings"` // the page's settings object, with sampling options and other settings
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"` // time of the last message
	Private  bool            `json:"private"` // kept in memory only
}

// ChatChange changes the fields that are not nil.
type ChatChange struct {
	Title    *string          `json:"title"`
	Folder   *int64           `json:"folder"`
	Pinned   *bool            `json:"pinned"`
	Model    *string          `json:"model"`
	System   *string          `json:"system"`
	Settings *json.RawMessage `json:"settings"`
}

// List selects chats. Pinned chats come first, then the newest.
type List struct {
	Folder *int64 // nil lists all chats, and 0 lists chats without a folder
	Skip   int
	Limit  int // 0 means no limit
}

const chatColumns = "id, title, ifnull(folder, 0), pinned, model, system, settings, created, updated"

// row is implemented by *sql.Row and *sql.Rows.
type row interface{ Scan(dest ...any) error }

func (s *Store) scanChat(r row) (Chat, error) {
	var c Chat
	var settings string
	var created, updated int64
	err := r.Scan(&c.ID, &c.Title, &c.Folder, &c.Pinned, &c.Model, &c.System, &settings, &created, &updated)
	c.Settings, c.Created, c.Updated = json.RawMessage(settings), time.UnixMilli(created), time.UnixMilli(updated)
	c.Private = s.private
	return c, err
}

// CreateChat stores a chat and returns it with its id and times. If the chat has no
// title, its first message sets one.
func (s *Store) CreateChat(ctx context.Context, c Chat) (Chat, error) {
	err := s.write(ctx, "create chat", func(tx *sql.Tx) error {
		now := s.millis()
		c.Created, c.Updated = time.UnixMilli(now), time.UnixMilli(now)
		id, err := insertChat(ctx, tx, &c)
		c.ID, c.Private = id, s.private
		return err
	})
	return c, err
}

// insertChat validates c and stores it.
func insertChat(ctx context.Context, tx *sql.Tx, c *Chat) (int64, error) {
	auto := strings.TrimSpace(c.Title) == ""
	c.Title = cleanTitle(c.Title)
	var err error
	if c.System, err = cleanText(c.System); err != nil {
		return 0, err
	}
	if c.Model, err = cleanText(c.Model); err != nil {
		return 0, err
	}
	if c.Settings, err = cleanObject(c.Settings); err != nil {
		return 0, err
	}
	if err := folderExists(ctx, tx, c.Folder); err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, `INSERT INTO chat(title, auto, folder, pinned, model, system, settings, created, updated)
		VALUES (?, ?, nullif(?, 0), ?, ?, ?, ?, ?, ?)`,
		c.Title, auto, c.Folder, c.Pinned, c.Model, c.System, string(c.Settings), c.Created.UnixMilli(), c.Updated.UnixMilli())
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// Chat returns one chat.
func (s *Store) Chat(ctx context.Context, id int64) (Chat, error) {
	c, err := s.scanChat(s.db.QueryRowContext(ctx, "SELECT "+chatColumns+" FROM chat WHERE id = ?", id))
	return c, s.fault(fmt.Sprintf("chat %d", id), err)
}

// Chats lists chats.
func (s *Store) Chats(ctx context.Context, l List) ([]Chat, error) {
	query, args := "SELECT "+chatColumns+" FROM chat", []any{}
	if l.Folder != nil {
		query += " WHERE ifnull(folder, 0) = ?"
		args = append(args, *l.Folder)
	}
	query += " ORDER BY pinned DESC, updated DESC, id DESC"
	if l.Limit > 0 {
		query += " LIMIT ? OFFSET ?"
		args = append(args, l.Limit, max(l.Skip, 0))
	}
	chats := []Chat{}
	err := s.each(ctx, query, args, func(r row) error {
		c, err := s.scanChat(r)
		chats = append(chats, c)
		return err
	})
	return chats, s.fault("list chats", err)
}

// each calls fn for every row of a query.
func (s *Store) each(ctx context.Context, query string, args []any, fn func(row) error) error {
	return each(ctx, s.db, query, args, fn)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func each(ctx context.Context, q querier, query string, args []any, fn func(row) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ChangeChat changes a chat and returns the result. A title that is set here is
// kept. An empty title is replaced by a title made from the first message.
func (s *Store) ChangeChat(ctx context.Context, id int64, change ChatChange) (Chat, error) {
	var c Chat
	err := s.write(ctx, fmt.Sprintf("change chat %d", id), func(tx *sql.Tx) error {
		var err error
		if c, err = s.scanChat(tx.QueryRowContext(ctx, "SELECT "+chatColumns+" FROM chat WHERE id = ?", id)); err != nil {
			return err
		}
		if change.Title != nil {
			if err := retitle(ctx, tx, &c, *change.Title); err != nil {
				return err
			}
		}
		if change.Folder != nil {
			c.Folder = *change.Folder
			if err := folderExists(ctx, tx, c.Folder); err != nil {
				return err
			}
		}
		if change.Pinned != nil {
			c.Pinned = *change.Pinned
		}
		if change.Model != nil {
			if c.Model, err = cleanText(*change.Model); err != nil {
				return err
			}
		}
		if change.System != nil {
			if c.System, err = cleanText(*change.System); err != nil {
				return err
			}
		}
		if change.Settings != nil {
			if c.Settings, err = cleanObject(*change.Settings); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE chat SET folder = nullif(?, 0), pinned = ?, model = ?, system = ?, settings = ? WHERE id = ?",
			c.Folder, c.Pinned, c.Model, c.System, string(c.Settings), id)
		return err
	})
	return c, err
}

// Suggest gives a chat a title that a model wrote, unless the user has named
// it. It reports whether the chat has the title now.
func (s *Store) Suggest(ctx context.Context, id int64, title string) (named bool, err error) {
	title = cleanTitle(title)
	err = s.write(ctx, fmt.Sprintf("name chat %d", id), func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "UPDATE chat SET title = ?, auto = 0 WHERE id = ? AND auto AND ? <> ''", title, id, title)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		named = n > 0
		return err
	})
	return named, err
}

// retitle sets the title of c. An empty title is replaced by a title made from
// the first message.
func retitle(ctx context.Context, tx *sql.Tx, c *Chat, title string) error {
	auto := strings.TrimSpace(title) == ""
	c.Title = cleanTitle(title)
	if auto {
		var first string
		err := tx.QueryRowContext(ctx, "SELECT content FROM message WHERE chat = ? AND role = ? ORDER BY id LIMIT 1", c.ID, User).Scan(&first)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		c.Title = AutoTitle(first)
	}
	_, err := tx.ExecContext(ctx, "UPDATE chat SET title = ?, auto = ? WHERE id = ?", c.Title, auto, c.ID)
	return err
}

// DeleteChat deletes a chat and its messages.
func (s *Store) DeleteChat(ctx context.Context, id int64) error {
	return s.write(ctx, fmt.Sprintf("delete chat %d", id), func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM chat WHERE id = ?", id)
		return oneRow(result, err)
	})
}

// oneRow returns ErrNotFound if a statement did not change any row.
func oneRow(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, ErrNotFound)
	}
	return nil
}

// AutoTitle makes a title from a message. It takes the first line with words and
// truncates it after a word.
func AutoTitle(message string) string {
	for line := range strings.Lines(message) {
		line = strings.TrimLeft(line, "#>*-` \t")
		words := strings.Fields(line)
		title := cleanTitle(strings.Join(words, " "))
		if strings.IndexFunc(title, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) < 0 {
			continue
		}
		if utf8.RuneCountInString(title) <= autoLength {
			return title
		}
		cut := string([]rune(title)[:autoLength])
		if space := strings.LastIndexByte(cut, ' '); space > autoLength/2 {
			cut = cut[:space]
		}
		return strings.TrimRight(cut, " ,;:") + "…"
	}
	return ""
}

// cleanTitle returns a title as one line of limited length without control
// characters.
func cleanTitle(title string) string {
	title = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(title, "\uFFFD"))
	title = strings.TrimSpace(title)
	if utf8.RuneCountInString(title) > maxTitle {
		title = string([]rune(title)[:maxTitle])
	}
	return title
}

// cleanText returns text as valid UTF-8 without NUL, because SQLite would truncate
// the text there.
func cleanText(text string) (string, error) {
	if len(text) > maxText {
		return "", fmt.Errorf("%w: the text has %d bytes; the limit is %d", ErrInput, len(text), maxText)
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"), nil
}

// cleanObject returns a compact JSON object, or {} without one.
func cleanObject(object json.RawMessage) (json.RawMessage, error) {
	if len(object) == 0 || string(object) == "null" {
		return json.RawMessage("{}"), nil
	}
	if len(object) > maxObject {
		return nil, fmt.Errorf("%w: the settings have %d bytes; the limit is %d", ErrInput, len(object), maxObject)
	}
	text, err := cleanText(string(object))
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	var out bytes.Buffer
	if err := errors.Join(json.Unmarshal([]byte(text), &fields), json.Compact(&out, []byte(text))); err != nil {
		return nil, fmt.Errorf("%w: the settings are not a JSON object: %w", ErrInput, err)
	}
	return out.Bytes(), nil
}
