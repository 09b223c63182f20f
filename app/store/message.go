package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Role is the author of a message.
type Role string

// The roles of messages.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

var roles = []Role{System, User, Assistant, Tool}

// Status is the state of a message.
type Status string

// The states of a message.
const (
	Done    Status = "done"
	Running Status = "running" // a Draft is writing the message
	Stopped Status = "stopped" // the message ended early; its text so far is kept
	Failed  Status = "error"   // the message failed; the field Error is the reason
)

var statuses = []Status{Done, Running, Stopped, Failed}

// Attachment is a text file that was sent with a message.
type Attachment struct {
	Name string `json:"name"`
	Type string `json:"type"` // media type
	Text string `json:"text"`
}

// Stats are the statistics of one answer.
type Stats struct {
	PromptTokens int     `json:"prompt_tokens,omitempty"`
	CachedTokens int     `json:"cached_tokens,omitempty"`  // prompt tokens that came from the cache and were not computed again
	ResumedFrom  int     `json:"resumed_tokens,omitempty"` // cached tokens that were read from disk
	OutputTokens int     `json:"output_tokens,omitempty"`
	FirstMS      float64 `json:"first_ms,omitempty"` // milliseconds to the first token
	TotalMS      float64 `json:"total_ms,omitempty"`
	TokensPerS   float64 `json:"tokens_per_s,omitempty"` // speed after the first token
	Finish       string  `json:"finish,omitempty"`       // finish reason: stop, length or tool_calls
	Full         bool    `json:"full,omitempty"`         // whether the answer ended because the context was full
}

// Message is one node in a chat's tree.
type Message struct {
	ID          int64           `json:"id"`
	Chat        int64           `json:"chat"`
	Parent      int64           `json:"parent"` // id of the previous message; 0 without one
	Role        Role            `json:"role"`
	Content     string          `json:"content"`
	Reasoning   string          `json:"reasoning,omitempty"`
	ToolCalls   json.RawMessage `json:"tool_calls,omitempty" ts:"ToolCall[]"` // list in OpenAI's format
	ToolCall    string          `json:"tool_call_id,omitempty"`
	Attachments []Attachment    `json:"attachments,omitempty"`
	Status      Status          `json:"status"`
	Error       string          `json:"error,omitempty"`
	Model       string          `json:"model,omitempty"`
	Stats       Stats           `json:"stats"`
	Created     time.Time       `json:"created"`
	Updated     time.Time       `json:"updated"`

	// Position of the message in its chat, set by Path.
	Depth    int     `json:"depth"`                         // number of messages before it
	Branches []int64 `json:"branches" ts:"number[] | null"` // ids of all messages with the same parent, including this one, oldest first
}

const messageColumns = "id, chat, ifnull(parent, 0), role, content, reasoning, tool_calls, tool_call, attachments, status, error, model, stats, created, updated"

func (s *Store) scanMessage(r row) (Message, error) {
	var m Message
	var calls, attachments, stats string
	var created, updated int64
	err := r.Scan(&m.ID, &m.Chat, &m.Parent, &m.Role, &m.Content, &m.Reasoning, &calls, &m.ToolCall, &attachments,
		&m.Status, &m.Error, &m.Model, &stats, &created, &updated)
	if err != nil {
		return m, err
	}
	m.Created, m.Updated = time.UnixMilli(created), time.UnixMilli(updated)
	if calls != "" {
		m.ToolCalls = json.RawMessage(calls)
	}
	if attachments != "" {
		if err := json.Unmarshal([]byte(attachments), &m.Attachments); err != nil {
			return m, fmt.Errorf("%w: attachments of message %d: %w", ErrDamaged, m.ID, err)
		}
	}
	if err := json.Unmarshal([]byte(stats), &m.Stats); err != nil {
		return m, fmt.Errorf("%w: statistics of message %d: %w", ErrDamaged, m.ID, err)
	}
	if m.Status == Running && s.abandoned(m.ID, m.Updated) {
		m.Status = Stopped
	}
	return m, nil
}

// stored holds the encoded columns of a message.
type stored struct {
	calls, attachments, stats string
}

// clean validates m, makes its texts storable, and returns the encoded columns.
func (m *Message) clean() (stored, error) {
	var out stored
	if m.Status == "" {
		m.Status = Done
	}
	if !slices.Contains(roles, m.Role) {
		return out, fmt.Errorf("%w: role %q", ErrInput, m.Role)
	}
	if !slices.Contains(statuses, m.Status) {
		return out, fmt.Errorf("%w: status %q", ErrInput, m.Status)
	}
	var err error
	for _, text := range []*string{&m.Content, &m.Reasoning, &m.ToolCall, &m.Error, &m.Model} {
		if *text, err = cleanText(*text); err != nil {
			return out, err
		}
	}
	if out.calls, err = cleanCalls(m.ToolCalls); err != nil {
		return out, err
	}
	total := 0
	for i := range m.Attachments {
		a := &m.Attachments[i]
		total += len(a.Text)
		if a.Text, err = cleanText(a.Text); err != nil {
			return out, err
		}
		a.Name, a.Type = cleanTitle(a.Name), cleanTitle(a.Type)
	}
	if total > maxText {
		return out, fmt.Errorf("%w: the attachments have %d bytes; the limit is %d", ErrInput, total, maxText)
	}
	if len(m.Attachments) > 0 {
		data, err := json.Marshal(m.Attachments)
		if err != nil {
			return out, err
		}
		out.attachments = string(data)
	}
	stats, err := json.Marshal(m.Stats)
	if err != nil {
		return out, fmt.Errorf("%w: statistics: %w", ErrInput, err)
	}
	out.stats = string(stats)
	return out, nil
}

// cleanCalls returns a compact JSON list, or "" for an empty list.
func cleanCalls(list json.RawMessage) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	text, err := cleanText(string(list))
	if err != nil {
		return "", err
	}
	var calls []json.RawMessage
	var out bytes.Buffer
	if json.Unmarshal([]byte(text), &calls) != nil || json.Compact(&out, []byte(text)) != nil {
		return "", fmt.Errorf("%w: tool calls are not a JSON list", ErrInput)
	}
	if len(calls) == 0 {
		return "", nil
	}
	return out.String(), nil
}

// Append adds a message below its parent and makes it visible. The path to it
// becomes the chat's active path.
func (s *Store) Append(ctx context.Context, m Message) (Message, error) {
	err := s.write(ctx, fmt.Sprintf("append to chat %d", m.Chat), func(tx *sql.Tx) error {
		return s.append(ctx, tx, &m)
	})
	return m, err
}

func (s *Store) append(ctx context.Context, tx *sql.Tx, m *Message) error {
	now := s.millis()
	m.Created, m.Updated = time.UnixMilli(now), time.UnixMilli(now)
	if err := s.touch(ctx, tx, m); err != nil {
		return err
	}
	if err := insertMessage(ctx, tx, m); err != nil {
		return err
	}
	if m.Parent == 0 {
		return show(ctx, tx, m.Chat, []link{{id: m.ID}})
	}
	links, err := readLinks(ctx, tx, m.Chat)
	if err != nil {
		return err
	}
	up, err := ancestry(links, m.ID)
	if err != nil {
		return err
	}
	return show(ctx, tx, m.Chat, up)
}

// touch sets the time at which a chat was last used. A chat without a title
// gets a title made from its first user message.
func (s *Store) touch(ctx context.Context, tx *sql.Tx, m *Message) error {
	var title string
	var auto bool
	err := tx.QueryRowContext(ctx, "SELECT title, auto FROM chat WHERE id = ?", m.Chat).Scan(&title, &auto)
	if err != nil {
		return err
	}
	if auto && title == "" && m.Role == User {
		if title = AutoTitle(m.Content); title != "" {
			if _, err := tx.ExecContext(ctx, "UPDATE chat SET title = ? WHERE id = ?", title, m.Chat); err != nil {
				return err
			}
		}
	}
	_, err = tx.ExecContext(ctx, "UPDATE chat SET updated = ? WHERE id = ?", s.millis(), m.Chat)
	return err
}

// insertMessage stores m unchanged and sets its id.
func insertMessage(ctx context.Context, tx *sql.Tx, m *Message) error {
	columns, err := m.clean()
	if err != nil {
		return err
	}
	if m.Parent != 0 {
		var chat int64
		err := tx.QueryRowContext(ctx, "SELECT chat FROM message WHERE id = ?", m.Parent).Scan(&chat)
		if errors.Is(err, sql.ErrNoRows) || err == nil && chat != m.Chat {
			return fmt.Errorf("%w: chat %d has no message %d", ErrNotFound, m.Chat, m.Parent)
		} else if err != nil {
			return err
		}
	}
	result, err := tx.ExecContext(ctx, `INSERT INTO message(chat, parent, role, content, reasoning, tool_calls, tool_call, attachments,
		status, error, model, stats, created, updated) VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.Chat, m.Parent, m.Role, m.Content, m.Reasoning, columns.calls, m.ToolCall, columns.attachments,
		m.Status, m.Error, m.Model, columns.stats, m.Created.UnixMilli(), m.Updated.UnixMilli())
	if err != nil {
		return err
	}
	m.ID, err = result.LastInsertId()
	return err
}

// Message returns one message without its position in the chat.
func (s *Store) Message(ctx context.Context, id int64) (Message, error) {
	m, err := s.scanMessage(s.db.QueryRowContext(ctx, "SELECT "+messageColumns+" FROM message WHERE id = ?", id))
	return m, s.fault(fmt.Sprintf("message %d", id), err)
}

// Edit stores a changed message next to the old one, as a new branch, and makes it
// visible. The old message and its answers are kept.
func (s *Store) Edit(ctx context.Context, id int64, content string, attachments []Attachment) (Message, error) {
	var m Message
	err := s.write(ctx, fmt.Sprintf("edit message %d", id), func(tx *sql.Tx) error {
		old, err := s.scanMessage(tx.QueryRowContext(ctx, "SELECT "+messageColumns+" FROM message WHERE id = ?", id))
		if err != nil {
			return err
		}
		m = Message{Chat: old.Chat, Parent: old.Parent, Role: old.Role, ToolCall: old.ToolCall, Content: content, Attachments: attachments}
		return s.append(ctx, tx, &m)
	})
	return m, err
}

// update stores the fields of a message that change while it is written.
func (s *Store) update(ctx context.Context, tx *sql.Tx, m *Message) error {
	columns, err := m.clean()
	if err != nil {
		return err
	}
	m.Updated = time.UnixMilli(s.millis())
	return oneRow(tx.ExecContext(ctx, `UPDATE message SET content = ?, reasoning = ?, tool_calls = ?, status = ?, error = ?, model = ?,
		stats = ?, updated = ? WHERE id = ?`,
		m.Content, m.Reasoning, columns.calls, m.Status, m.Error, m.Model, columns.stats, m.Updated.UnixMilli(), m.ID))
}
