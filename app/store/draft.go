package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

const (
	// saveEvery is how often an answer is saved, which limits how much of it a
	// crash loses.
	saveEvery = time.Second
	// silence is how long an answer of another process may stay unsaved before
	// it counts as ended.
	silence = 10 * time.Second
)

// drafts lists the messages that this process is writing.
type drafts struct {
	mu  sync.Mutex
	ids map[int64]struct{}
}

func (d *drafts) add(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ids == nil {
		d.ids = map[int64]struct{}{}
	}
	d.ids[id] = struct{}{}
}

func (d *drafts) drop(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ids, id)
}

// abandoned reports whether a message with the status Running is no longer being
// written.
func (s *Store) abandoned(id int64, updated time.Time) bool {
	s.drafts.mu.Lock()
	defer s.drafts.mu.Unlock()
	_, ours := s.drafts.ids[id]
	return !ours && s.now().Sub(updated) > silence
}

// stopDrafts marks messages that no process writes any more as stopped, which also
// adds them to the search index.
func (s *Store) stopDrafts(ctx context.Context) error {
	return s.write(ctx, "recover", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE message SET status = ? WHERE status = ? AND updated < ?",
			Stopped, Running, s.now().Add(-silence).UnixMilli())
		return err
	})
}

// Draft is an answer while it is being written. Its text is saved as it grows, so
// that it survives the end of the program. Only one goroutine may use a Draft.
type Draft struct {
	s     *Store
	m     Message
	saved time.Time
}

// Begin adds a message to a chat and returns a Draft for it. The message is
// empty, or has the text to continue.
func (s *Store) Begin(ctx context.Context, m Message) (*Draft, error) {
	m.Status = Running
	m, err := s.Append(ctx, m)
	if err != nil {
		return nil, err
	}
	s.drafts.add(m.ID)
	return &Draft{s, m, s.now()}, nil
}

// Resume returns a Draft that continues a message that ended early.
func (s *Store) Resume(ctx context.Context, id int64) (*Draft, error) {
	m, err := s.Message(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Role != Assistant || m.Status == Running {
		return nil, fmt.Errorf("chats: resume message %d: %w: it is a %s message, %s", id, ErrInput, m.Role, m.Status)
	}
	m.Status, m.Error = Running, ""
	s.drafts.add(id)
	err = s.write(ctx, fmt.Sprintf("resume message %d", id), func(tx *sql.Tx) error { return s.update(ctx, tx, &m) })
	if err != nil {
		s.drafts.drop(id)
		return nil, err
	}
	return &Draft{s, m, s.now()}, nil
}

// Message returns the message as it was saved last.
func (d *Draft) Message() Message { return d.m }

// Save stores the result of text. If the last save was less than a second ago,
// it does nothing and does not call text. If it fails, the stored text is
// unchanged, and the next call tries again.
func (d *Draft) Save(ctx context.Context, text func() (content, reasoning string)) error {
	now := d.s.now()
	if now.Sub(d.saved) < saveEvery {
		return nil
	}
	d.saved = now
	d.m.Content, d.m.Reasoning = text()
	return d.s.write(ctx, fmt.Sprintf("save message %d", d.m.ID), func(tx *sql.Tx) error { return d.s.update(ctx, tx, &d.m) })
}

// Finish stores the complete answer: the texts, tool calls, status, error, model
// and statistics in m. If the status is still Running, it becomes Done. If Finish
// fails, the message counts as stopped, with the text that was saved last.
func (d *Draft) Finish(ctx context.Context, m Message) (Message, error) {
	if m.Status == Running || m.Status == "" {
		m.Status = Done
	}
	done := d.m
	done.Content, done.Reasoning, done.ToolCalls = m.Content, m.Reasoning, m.ToolCalls
	done.Status, done.Error, done.Model, done.Stats = m.Status, m.Error, m.Model, m.Stats
	err := d.s.write(ctx, fmt.Sprintf("finish message %d", d.m.ID), func(tx *sql.Tx) error { return d.s.update(ctx, tx, &done) })
	d.s.drafts.drop(done.ID)
	if err == nil {
		d.m = done
	}
	return done, err
}
