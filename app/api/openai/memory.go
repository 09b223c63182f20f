package openai

import (
	"container/list"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"godwit/app/api/wire"
)

// Limits of a Memory.
const (
	memoryBytes     = 64 << 20
	memoryResponses = 1024
	maxBackground   = 16
)

// Memory keeps recent responses, so that a client can continue them or refer to
// their items. Its size is limited, and the least recently used response is dropped
// first. The zero value is empty.
type Memory struct {
	mu      sync.Mutex
	byID    map[string]*list.Element // the values are of type *kept
	items   map[string]held
	order   list.List // most recently used first
	bytes   int
	running int
}

// held is an item in one or more kept responses.
type held struct {
	raw   json.RawMessage
	users int
}

// kept is a response together with its input.
type kept struct {
	id      string
	input   []json.RawMessage // whole conversation before the answer
	output  []json.RawMessage
	body    json.RawMessage
	cancel  context.CancelFunc // cancels the background response that is being generated; nil otherwise
	started bool               // whether the response was started in the background
}

// all returns the conversation including the answer.
func (k *kept) all() []json.RawMessage { return slices.Concat(k.input, k.output) }

func (k *kept) size() int {
	n := len(k.body)
	for _, raw := range k.all() {
		n += len(raw)
	}
	return n
}

// Bytes returns the size of the kept responses.
func (m *Memory) Bytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

func itemID(raw json.RawMessage) string {
	var it struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(raw, &it) != nil {
		return ""
	}
	return it.ID
}

// put keeps a response, replacing one with the same id.
func (m *Memory) put(k *kept) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID == nil {
		m.byID, m.items = map[string]*list.Element{}, map[string]held{}
	}
	if e := m.byID[k.id]; e != nil {
		old := e.Value.(*kept)
		k.started, old.cancel = old.started, nil // the background response has only changed
		m.drop(e)
	}
	m.byID[k.id] = m.order.PushFront(k)
	m.bytes += k.size()
	for _, raw := range k.all() {
		if id := itemID(raw); id != "" {
			m.items[id] = held{raw, m.items[id].users + 1}
		}
	}
	for m.order.Len() > 1 && (m.bytes > memoryBytes || m.order.Len() > memoryResponses) {
		m.drop(m.order.Back())
	}
}

func (m *Memory) drop(e *list.Element) {
	k := m.order.Remove(e).(*kept)
	delete(m.byID, k.id)
	m.bytes -= k.size()
	for _, raw := range k.all() {
		id := itemID(raw)
		if h := m.items[id]; h.users > 1 {
			m.items[id] = held{h.raw, h.users - 1}
		} else {
			delete(m.items, id)
		}
	}
	if k.cancel != nil {
		k.cancel()
	}
}

// missing returns the error for a response or item that is not kept.
func missing(param, what, id string) *wire.Error {
	e := wire.Fault(http.StatusNotFound, wire.NotFound, "%s %.128q not found; the server keeps only recent ones, until it stops", what, id)
	e.Param, e.Code = param, "not_found"
	return e
}

func (m *Memory) find(id, param string) (*kept, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil {
		return nil, missing(param, "response", id)
	}
	m.order.MoveToFront(e)
	return e.Value.(*kept), nil
}

func (m *Memory) item(id, path string) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.items[id]
	if !ok {
		return nil, missing(path, "item", id)
	}
	return h.raw, nil
}

// Body returns a kept response.
func (m *Memory) Body(id string) (json.RawMessage, error) {
	k, err := m.find(id, "")
	if err != nil {
		return nil, err
	}
	return k.body, nil
}

// Deleted is the answer of DELETE /v1/responses/{id}.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// Delete drops a response.
func (m *Memory) Delete(id string) (*Deleted, error) {
	if _, err := m.find(id, ""); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byID[id]; e != nil {
		m.drop(e)
	}
	return &Deleted{id, "response", true}, nil
}

// ItemList is the answer of GET /v1/responses/{id}/input_items.
type ItemList struct {
	Object string            `json:"object"`
	Data   []json.RawMessage `json:"data"`
	First  string            `json:"first_id"`
	Last   string            `json:"last_id"`
	More   bool              `json:"has_more"`
}

// Input lists the input of a response, in reverse order unless ascending is
// set. It returns at most limit items. They begin behind the item whose id is
// after, or at the first item if after is empty or unknown.
func (m *Memory) Input(id, after string, limit int, ascending bool) (*ItemList, error) {
	k, err := m.find(id, "")
	if err != nil {
		return nil, err
	}
	all := make([]json.RawMessage, len(k.input))
	for i, raw := range k.input {
		if ascending {
			all[i] = raw
		} else {
			all[len(all)-1-i] = raw
		}
	}
	for i, raw := range all {
		if after != "" && itemID(raw) == after {
			all = all[i+1:]
			break
		}
	}
	out := &ItemList{Object: "list", Data: all, More: len(all) > limit}
	if out.More {
		out.Data = all[:limit]
	}
	if n := len(out.Data); n > 0 {
		out.First, out.Last = itemID(out.Data[0]), itemID(out.Data[n-1])
	}
	return out, nil
}

// Begin keeps a background response as queued and returns its body. cancel cancels
// it. done must be called when it has ended.
func (m *Memory) Begin(c *Responses, cancel context.CancelFunc) (body json.RawMessage, done func(), err error) {
	m.mu.Lock()
	full := m.running == maxBackground
	if !full {
		m.running++
	}
	m.mu.Unlock()
	if full {
		return nil, nil, wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%d background responses are already running, which is the limit", maxBackground)
	}
	b := c.builder(&wire.Model{Name: c.Model})
	b.r.Status = "queued"
	k := &kept{id: c.id, input: c.all, body: wire.JSON(&b.r), cancel: cancel, started: true}
	m.put(k)
	return k.body, func() {
		m.mu.Lock()
		m.running--
		m.mu.Unlock()
	}, nil
}

// Fail ends a background response. It has failed if e is set, and was cancelled
// otherwise.
func (m *Memory) Fail(c *Responses, e *wire.Error) {
	if _, err := m.find(c.id, ""); err != nil {
		return // the response was deleted in the meantime
	}
	b := c.builder(&wire.Model{Name: c.Model})
	b.fail(e)
	m.put(&kept{id: c.id, input: c.all, body: wire.JSON(&b.r), started: true})
}

// Cancel cancels a background response and returns it.
func (m *Memory) Cancel(id string) (json.RawMessage, error) {
	k, err := m.find(id, "")
	if err != nil {
		return nil, err
	}
	if !k.started {
		return nil, wire.Bad("", "response %.128q does not run in the background", id)
	}
	if k.cancel == nil { // already ended
		return k.body, nil
	}
	k.cancel()
	var o wire.Object
	if o, err = wire.ReadObject(k.body, ""); err != nil {
		return nil, err
	}
	o.SetText("status", "cancelled")
	m.put(&kept{id: id, input: k.input, body: o.Raw(), started: true})
	return o.Raw(), nil
}

// TokenCount is the answer of POST /v1/responses/input_tokens.
type TokenCount struct {
	Object string `json:"object"`
	Tokens int    `json:"input_tokens"`
}
