package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	format        = "godwit-chats"
	formatVersion = 1
	maxImport     = 256 << 20 // maximum bytes of an imported file
	maxMessages   = 200_000   // maximum messages per imported chat
	maxChats      = 50_000    // maximum chats per file
	maxAll        = 1_000_000 // maximum messages per file
	maxFolders    = 1_000     // maximum new folders per file
	maxAttached   = 10_000    // maximum attachments per imported message
)

// exportedChat is the JSON form of a chat. It has everything except the ids of
// this database.
type exportedChat struct {
	Chat
	ID       *int64           `json:"id,omitempty"` // hides ID of Chat
	Private  *bool            `json:"private,omitempty"`
	Folder   string           `json:"folder"` // name of the folder
	Chosen   int64            `json:"chosen"` // first message of the visible branch
	Messages exportedMessages `json:"messages"`
}

type exportedMessage struct {
	Message
	Chat     *int64   `json:"chat,omitempty"` // these three fields hide fields of Message
	Depth    *int     `json:"depth,omitempty"`
	Branches *[]int64 `json:"branches,omitempty"`
	Chosen   int64    `json:"chosen"`
}

// exportedMessages is a list of at most maxMessages messages. Without this limit,
// three bytes of a file could allocate hundreds of bytes.
type exportedMessages []exportedMessage

func (l *exportedMessages) UnmarshalJSON(data []byte) error {
	list, err := readList[exportedMessage](data, maxMessages)
	*l = list
	return err
}

// UnmarshalJSON limits the number of attachments, as exportedMessages limits messages.
func (m *exportedMessage) UnmarshalJSON(data []byte) error {
	type plain exportedMessage
	in := struct {
		*plain
		Attachments json.RawMessage `json:"attachments"`
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	var err error
	m.Attachments, err = readList[Attachment](in.Attachments, maxAttached)
	return err
}

// readList reads a list of limited length. null or a missing list gives nil.
func readList[T any](data []byte, most int) (list []T, err error) {
	in := json.NewDecoder(bytes.NewReader(data))
	switch first, err := in.Token(); {
	case err == io.EOF || err == nil && first == nil:
		return nil, nil
	case err != nil:
		return nil, err
	case first != json.Delim('['):
		return nil, fmt.Errorf("%v instead of a list", first)
	}
	for in.More() {
		if len(list) == most {
			return nil, fmt.Errorf("a list of more than %d elements", most)
		}
		var x T
		if err := in.Decode(&x); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// ExportJSON writes chats with all their branches, or every chat if chats is empty.
// Import reads the result.
func (s *Store) ExportJSON(ctx context.Context, w io.Writer, chats ...int64) error {
	if len(chats) == 0 {
		all, err := s.Chats(ctx, List{})
		if err != nil {
			return err
		}
		for _, c := range all {
			chats = append(chats, c.ID)
		}
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "{\"format\": %q, \"version\": %d, \"chats\": [", format, formatVersion)
	for i, id := range chats {
		e, err := s.exportChat(ctx, id)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprint(out, ",") // out keeps an error until Flush returns it
		}
		fmt.Fprintln(out)
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false) // JSON texts in the export, such as tool calls, stay unescaped
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	fmt.Fprint(out, "]}\n")
	return out.Flush()
}

func (s *Store) exportChat(ctx context.Context, id int64) (exportedChat, error) {
	var e exportedChat
	name := fmt.Sprintf("export chat %d", id)
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return e, s.fault(name, err)
	}
	defer func() { _ = tx.Rollback() }() // read-only transaction
	if e.Chat, err = s.scanChat(tx.QueryRowContext(ctx, "SELECT "+chatColumns+" FROM chat WHERE id = ?", id)); err != nil {
		return e, s.fault(name, err)
	}
	err = tx.QueryRowContext(ctx, "SELECT ifnull(f.name, ''), ifnull(c.chosen, 0) FROM chat c LEFT JOIN folder f ON f.id = c.folder WHERE c.id = ?", id).Scan(&e.Folder, &e.Chosen)
	if err != nil {
		return e, s.fault(name, err)
	}
	links, err := readLinks(ctx, tx, id)
	if err != nil {
		return e, s.fault(name, err)
	}
	e.Messages = []exportedMessage{}
	err = each(ctx, tx, "SELECT "+messageColumns+" FROM message WHERE chat = ? ORDER BY id", []any{id}, func(r row) error {
		m, err := s.scanMessage(r)
		e.Messages = append(e.Messages, exportedMessage{Message: m, Chosen: links[m.ID].chosen})
		return err
	})
	return e, s.fault(name, err)
}

// Import stores the chats in a file as new chats. The file may be the output of
// ExportJSON or ExportMarkdown, Markdown with a heading for each speaker, or
// another program's export. If Import fails, no chat is stored. fits checks the
// settings of each chat, in order. Settings that it rejects are left out. If
// fits is nil, all settings are accepted.
func (s *Store) Import(ctx context.Context, r io.Reader, fits func(settings json.RawMessage) error) ([]Chat, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxImport+1))
	if err != nil {
		return nil, s.fault("import", err)
	}
	if len(data) > maxImport {
		return nil, s.fault("import", fmt.Errorf("%w: the file is larger than %d bytes", ErrInput, maxImport))
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, s.fault("import", fmt.Errorf("%w: the file is not UTF-8 text", ErrInput))
	}
	read := readMarkdown
	switch start := bytes.TrimSpace(data); {
	case bytes.HasPrefix(start, []byte("[")) && json.Valid(start):
		read = readForeign
	case bytes.HasPrefix(start, []byte("{")):
		if err := checkHead(data); err != nil {
			return nil, s.fault("import", err)
		}
		read = readJSON
	}
	var imported []Chat
	all := 0
	err = s.write(ctx, "import", func(tx *sql.Tx) error {
		folders := folders{tx: tx, ids: map[string]int64{"": 0}}
		twins, err := knownChats(ctx, tx)
		if err != nil {
			return err
		}
		return read(data, s.now(), func(e *exportedChat) error {
			if all += len(e.Messages); len(imported) == maxChats || all > maxAll {
				return fmt.Errorf("%w: the file has more than %d chats or %d messages", ErrInput, maxChats, maxAll)
			}
			twins.rename(&e.Chat)
			c, err := s.importChat(ctx, tx, e, &folders, fits)
			if err != nil {
				return fmt.Errorf("chat %d: %w", len(imported)+1, err)
			}
			imported = append(imported, c)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return imported, nil
}

// twins holds the chats that existed before an import, by title and time.
type twins map[string]bool

func twinKey(title string, created time.Time) string {
	return strconv.FormatInt(created.UnixMilli(), 10) + " " + title
}

func knownChats(ctx context.Context, tx *sql.Tx) (twins, error) {
	known := twins{}
	err := each(ctx, tx, "SELECT title, created FROM chat", nil, func(r row) error {
		var title string
		var created int64
		err := r.Scan(&title, &created)
		known[strconv.FormatInt(created, 10)+" "+title] = true
		return err
	})
	return known, err
}

// rename gives a chat a new title if a chat with its title and time already exists.
func (t twins) rename(c *Chat) {
	title := cleanTitle(c.Title)
	if title == "" || !t[twinKey(title, c.Created)] {
		return
	}
	for n := 1; n <= maxChats; n++ {
		c.Title = title + " (imported)"
		if n > 1 {
			c.Title = fmt.Sprintf("%s (imported %d)", title, n)
		}
		if c.Title = cleanTitle(c.Title); !t[twinKey(c.Title, c.Created)] {
			break
		}
	}
	t[twinKey(c.Title, c.Created)] = true
}

// checkHead rejects JSON that ExportJSON did not write.
func checkHead(data []byte) error {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if head.Format != format {
		return fmt.Errorf("%w: not a chat export of Godwit: format %.64q, want %q", ErrInput, head.Format, format)
	}
	if head.Version > formatVersion {
		return fmt.Errorf("%w: the file has export version %d, but this Godwit supports only %d", ErrNewer, head.Version, formatVersion)
	}
	return nil
}

// readJSON passes on the chats of an export one at a time, so that only one is in
// memory. checkHead has verified that data is an object.
func readJSON(data []byte, _ time.Time, store func(*exportedChat) error) error {
	in := json.NewDecoder(bytes.NewReader(data))
	var wrong error
	token := func() (t json.Token) {
		if wrong == nil {
			t, wrong = in.Token()
		}
		return t
	}
	token() // opening brace
	chats := 0
	for wrong == nil && in.More() {
		if key := token(); key != "chats" {
			var skipped json.RawMessage
			wrong = in.Decode(&skipped)
			continue
		}
		if first := token(); wrong == nil && first != json.Delim('[') {
			wrong = errors.New("chats is not a list")
		}
		for wrong == nil && in.More() {
			var e exportedChat
			if wrong = in.Decode(&e); wrong != nil {
				break
			}
			chats++
			if err := store(&e); err != nil {
				return err
			}
		}
		token() // closing bracket
	}
	switch {
	case wrong != nil:
		return fmt.Errorf("%w: chat %d: %w", ErrInput, chats+1, wrong)
	case chats == 0:
		return fmt.Errorf("%w: the file contains no chat", ErrInput)
	}
	return nil
}

// importChat stores a chat with new ids.
func (s *Store) importChat(ctx context.Context, tx *sql.Tx, e *exportedChat, dir *folders, fits func(json.RawMessage) error) (Chat, error) {
	c := e.Chat
	c.Created, c.Updated = s.sane(c.Created), s.sane(c.Updated)
	var err error
	if c.Settings, err = cleanObject(c.Settings); err != nil {
		return c, err
	}
	if fits != nil && fits(c.Settings) != nil {
		c.Settings = json.RawMessage("{}")
	}
	if c.Folder, err = dir.named(ctx, e.Folder); err != nil {
		return c, err
	}
	if c.ID, err = insertChat(ctx, tx, &c); err != nil {
		return c, err
	}
	order, err := parentsFirst(e.Messages)
	if err != nil {
		return c, err
	}
	fresh := map[int64]int64{0: 0}
	for _, i := range order {
		m := e.Messages[i].Message
		m.Chat, m.Parent = c.ID, fresh[m.Parent]
		m.Created, m.Updated = s.sane(m.Created), s.sane(m.Updated)
		if m.Status == Running {
			m.Status = Stopped
		}
		if err := insertMessage(ctx, tx, &m); err != nil {
			return c, fmt.Errorf("message %d: %w", e.Messages[i].ID, err)
		}
		fresh[e.Messages[i].ID] = m.ID
	}
	for _, m := range e.Messages {
		if m.Chosen == 0 {
			continue
		}
		if _, err := tx.ExecContext(ctx, "UPDATE message SET chosen = nullif(?, 0) WHERE id = ?", fresh[m.Chosen], fresh[m.ID]); err != nil {
			return c, err
		}
	}
	if _, err = tx.ExecContext(ctx, "UPDATE chat SET chosen = nullif(?, 0) WHERE id = ?", fresh[e.Chosen], c.ID); err != nil {
		return c, err
	}
	if c.Title == "" {
		err = retitle(ctx, tx, &c, "")
	}
	return c, err
}

// parentsFirst orders messages so that each comes after its parent. It returns an
// error if the messages do not form trees.
func parentsFirst(messages []exportedMessage) ([]int, error) {
	seen := map[int64]bool{}
	children := map[int64][]int{}
	for i, m := range messages {
		if m.ID <= 0 || seen[m.ID] {
			return nil, fmt.Errorf("%w: message id %d is missing or duplicated", ErrInput, m.ID)
		}
		seen[m.ID] = true
		children[m.Parent] = append(children[m.Parent], i)
	}
	order := slices.Clone(children[0])
	for at := 0; at < len(order); at++ {
		order = append(order, children[messages[order[at]].ID]...)
	}
	if len(order) != len(messages) {
		return nil, fmt.Errorf("%w: %d of %d messages are not connected to a first message", ErrInput, len(messages)-len(order), len(messages))
	}
	return order, nil
}

// sane returns t if the database can store it, and otherwise the current time.
func (s *Store) sane(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 1970 || y > 9998 { // the year must have four digits in every time zone, because JSON times cannot have five
		return time.UnixMilli(s.millis())
	}
	return t
}

// folders holds the folders that an import has requested, by name. The empty
// name stands for no folder.
type folders struct {
	tx   *sql.Tx
	ids  map[string]int64
	made int
}

// named returns the folder with a name and creates it if necessary.
func (d *folders) named(ctx context.Context, name string) (int64, error) {
	name = cleanTitle(name)
	id, ok := d.ids[name]
	if ok {
		return id, nil
	}
	err := d.tx.QueryRowContext(ctx, "SELECT id FROM folder WHERE name = ? ORDER BY id LIMIT 1", name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		id, err = d.make(ctx, name)
	}
	if err == nil {
		d.ids[name] = id
	}
	return id, err
}

func (d *folders) make(ctx context.Context, name string) (int64, error) {
	if d.made++; d.made > maxFolders {
		return 0, fmt.Errorf("%w: the file has more than %d new folders", ErrInput, maxFolders)
	}
	result, err := d.tx.ExecContext(ctx, "INSERT INTO folder(name, position) SELECT ?, ifnull(max(position), 0) + 1 FROM folder", name)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}
