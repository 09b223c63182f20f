package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
)

// link is a message without its text.
type link struct {
	id, parent, chosen int64
}

// readLinks returns the tree of a chat by id.
func readLinks(ctx context.Context, q querier, chat int64) (map[int64]link, error) {
	links := map[int64]link{}
	err := each(ctx, q, "SELECT id, ifnull(parent, 0), ifnull(chosen, 0) FROM message WHERE chat = ?", []any{chat}, func(r row) error {
		var l link
		err := r.Scan(&l.id, &l.parent, &l.chosen)
		links[l.id] = l
		return err
	})
	return links, err
}

// ancestry returns a message and its ancestors, starting with the message.
func ancestry(links map[int64]link, id int64) ([]link, error) {
	var up []link
	for id != 0 {
		l, ok := links[id]
		if !ok || len(up) > len(links) {
			return nil, fmt.Errorf("%w: message %d is not below its chat", ErrDamaged, id)
		}
		up = append(up, l)
		id = l.parent
	}
	return up, nil
}

// show makes a message's branch visible. up lists the message and its ancestors.
// The choices below the message are kept. It writes only what changes.
func show(ctx context.Context, tx *sql.Tx, chat int64, up []link) error {
	for i := 0; i+1 < len(up); i++ {
		child, parent := up[i], up[i+1]
		if parent.chosen == child.id {
			continue
		}
		if _, err := tx.ExecContext(ctx, "UPDATE message SET chosen = ? WHERE id = ?", child.id, parent.id); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "UPDATE chat SET chosen = ? WHERE id = ?", up[len(up)-1].id, chat)
	return err
}

// Choose makes a message's branch visible.
func (s *Store) Choose(ctx context.Context, id int64) error {
	return s.write(ctx, fmt.Sprintf("choose message %d", id), func(tx *sql.Tx) error {
		var chat int64
		if err := tx.QueryRowContext(ctx, "SELECT chat FROM message WHERE id = ?", id).Scan(&chat); err != nil {
			return err
		}
		links, err := readLinks(ctx, tx, chat)
		if err != nil {
			return err
		}
		up, err := ancestry(links, id)
		if err != nil {
			return err
		}
		return show(ctx, tx, chat, up)
	})
}

// Page selects a part of the active path. The zero value selects all of it.
type Page struct {
	Before int // only messages with a smaller Depth; 0 selects all
	Limit  int // maximum number of messages, counted from the end; 0 selects all
}

// Path returns the visible messages in order, and the number of all visible
// messages regardless of the page.
func (s *Store) Path(ctx context.Context, chat int64, p Page) (messages []Message, total int, err error) {
	name := fmt.Sprintf("read chat %d", chat)
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, 0, s.fault(name, err)
	}
	defer func() { _ = tx.Rollback() }() // read-only transaction
	path, branches, err := activePath(ctx, tx, chat)
	if err != nil {
		return nil, 0, s.fault(name, err)
	}
	end := len(path)
	if p.Before > 0 {
		end = min(end, p.Before)
	}
	start := 0
	if p.Limit > 0 {
		start = max(0, end-p.Limit)
	}
	messages, err = s.messages(ctx, tx, path[start:end])
	for i := range messages {
		m := &messages[i]
		m.Depth, m.Branches = start+i, branches[m.Parent]
	}
	return messages, len(path), s.fault(name, err)
}

// activePath returns the ids of the visible messages, starting with the first, and
// the children of every message, oldest first.
func activePath(ctx context.Context, tx *sql.Tx, chat int64) (path []int64, children map[int64][]int64, err error) {
	var next int64
	if err := tx.QueryRowContext(ctx, "SELECT ifnull(chosen, 0) FROM chat WHERE id = ?", chat).Scan(&next); err != nil {
		return nil, nil, err
	}
	links, err := readLinks(ctx, tx, chat)
	if err != nil {
		return nil, nil, err
	}
	children = map[int64][]int64{}
	for _, l := range links {
		children[l.parent] = append(children[l.parent], l.id)
	}
	for _, ids := range children {
		slices.Sort(ids)
	}
	at := int64(0)
	for len(path) <= len(links) {
		// if the chosen branch was deleted, the newest one is visible
		if l, ok := links[next]; !ok || l.parent != at {
			ids := children[at]
			if len(ids) == 0 {
				return path, children, nil
			}
			next = ids[len(ids)-1]
		}
		path = append(path, next)
		at, next = next, links[next].chosen
	}
	return nil, nil, fmt.Errorf("%w: the messages of chat %d form a cycle", ErrDamaged, chat)
}

// messages reads messages by id, in the given order.
func (s *Store) messages(ctx context.Context, tx *sql.Tx, ids []int64) ([]Message, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	place := make(map[int64]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	messages := make([]Message, len(ids))
	err = each(ctx, tx, "SELECT "+messageColumns+" FROM message WHERE id IN (SELECT value FROM json_each(?))", []any{string(list)}, func(r row) error {
		m, err := s.scanMessage(r)
		messages[place[m.ID]] = m
		return err
	})
	return messages, err
}

// DeleteMessage deletes a message and everything below it. Another branch
// becomes visible if there is one.
func (s *Store) DeleteMessage(ctx context.Context, id int64) error {
	return s.write(ctx, fmt.Sprintf("delete message %d", id), func(tx *sql.Tx) error {
		var chat int64
		if err := tx.QueryRowContext(ctx, "SELECT chat FROM message WHERE id = ?", id).Scan(&chat); err != nil {
			return err
		}
		links, err := readLinks(ctx, tx, chat)
		if err != nil {
			return err
		}
		children := map[int64][]int64{}
		for _, l := range links {
			children[l.parent] = append(children[l.parent], l.id)
		}
		doomed := []int64{id}
		for i := 0; i < len(doomed); i++ {
			if doomed = append(doomed, children[doomed[i]]...); len(doomed) > len(links) {
				return fmt.Errorf("%w: the messages of chat %d form a cycle", ErrDamaged, chat)
			}
		}
		list, err := json.Marshal(doomed)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM message WHERE id IN (SELECT value FROM json_each(?))", string(list))
		return err
	})
}
