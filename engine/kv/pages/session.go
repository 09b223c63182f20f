package pages

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// ErrSession is the class of errors about a saved sequence that this cache cannot
// load, because it is damaged or was saved with another model or layout.
var ErrSession = errors.New("kv: saved sequence refused")

const (
	sessionMagic   = "gwkv\r\n\x1a\n"
	sessionVersion = 3
	sessionOldest  = 2 // the same format without points
)

// sessionHeader describes the rows of a saved sequence. Types are identified by
// name, because their numbers differ between programs.
type sessionHeader struct {
	Model  string         `json:"model"`            // identity of the model file
	Page   int            `json:"page"`             // PageCells
	Len    int            `json:"len"`              // number of positions of the sequence
	Keep   int            `json:"keep"`             // end of its prompt, a page border
	Marks  []int          `json:"marks"`            // positions of the recurrent state's checkpoints, ascending
	Points []int          `json:"points,omitempty"` // positions before the end to which exact pages allow a cut, ascending
	Policy int            `json:"policy"`
	Memory int64          `json:"memory,omitempty"` // bytes of a conversation that decide its exact window
	Step   int            `json:"step,omitempty"`   // pages of a chunk for which they have a reserve
	Groups []sessionGroup `json:"groups"`
	Layers []sessionLayer `json:"layers"`
}

type sessionGroup struct {
	Window   int   `json:"window"`
	Newest   int   `json:"newest"` // size of the exact window
	Pinned   int   `json:"sinks"`  // number of pinned rows
	From     int   `json:"from"`   // first position with a row
	Exact    []int `json:"exact"`  // pages with exact rows, ascending
	Unpacked int   `json:"late"`   // number of last exact pages without packed rows, in types packed by page
}

type sessionLayer struct {
	Layer int         `json:"layer"`
	Group int         `json:"group"` // -1 if the layer has no rows
	Share int         `json:"share"` // index of the layer whose rows this layer reads; -1 for its own
	Heads int         `json:"kv_heads"`
	K     sessionSide `json:"k"`
	V     sessionSide `json:"v"`
	State int64       `json:"state"` // bytes of recurrent state
}

type sessionSide struct {
	Type    string `json:"type"`
	Form    string `json:"form"` // identity of codes, levels and rotation
	HeadDim int    `json:"head_dim"`
	Padded  int    `json:"padded"`
	Row     int    `json:"row"` // bytes per token, read back from the memory

	ExactForm  string `json:"exact_form"` // form of exact pages; empty for none
	ExactRow   int    `json:"exact_row"`
	PinnedForm string `json:"sink_form"`
	PinnedRow  int    `json:"sink_row"`
	// Channels identifies the calibration of the keys. It is empty if there is
	// none.
	Channels string `json:"channels,omitempty"`
}

// packed returns how many of n positions have packed rows, in types packed by page.
func (h *sessionGroup) packed(n int) int {
	if h.Unpacked == 0 {
		return n
	}
	return ((n-1)/kv.PageCells + 1 - h.Unpacked) * kv.PageCells
}

// exact returns how many of n positions have exact rows.
func (h *sessionGroup) exact(n int) (rows int) {
	for _, i := range h.Exact {
		rows += min(kv.PageCells, n-i*kv.PageCells)
	}
	return rows
}

// header describes the saved parts of a sequence: everything that a row at its
// end or at the end of its prompt reads, and the points that need no further
// data.
func (c *Cache) header(s *sequence) *sessionHeader {
	l := c.layout
	h := &sessionHeader{Model: hex.EncodeToString(c.model[:]), Page: kv.PageCells, Len: s.len, Keep: s.keep, Policy: l.Policy, Marks: []int{}}
	if b := c.layout.Budget(); b != nil {
		h.Memory, h.Step = b.Bytes, b.Chunk
	}
	for _, m := range s.earlier() {
		h.Marks = append(h.Marks, m.pos)
	}
	saved := sequence{len: s.len, keep: s.keep}
	for _, q := range s.points {
		if q.pos < s.len && c.savedWith(s, h, q.pos) {
			saved.points, h.Points = append(saved.points, q), append(h.Points, q.pos)
		}
	}
	for g := range l.Groups {
		y := sessionGroup{
			Window: l.Groups[g].Window, Newest: l.Groups[g].Exact.Newest, Pinned: l.Groups[g].Exact.Pinned,
			From: c.savedFrom(s, g) * kv.PageCells, Exact: []int{}, Unpacked: c.unpacked(s, g),
		}
		w := c.exact[g].window
		for i, page := range s.exact[g] {
			if page >= 0 && i >= y.From/kv.PageCells && (i >= w.FirstKept(s.len) || saved.keeps(w, i)) {
				y.Exact = append(y.Exact, i)
			}
		}
		h.Groups = append(h.Groups, y)
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		h.Layers = append(h.Layers, sessionLayer{
			Layer: y.Layer, Group: y.Group, Share: y.Share, Heads: y.KVHeads,
			K: savedSide(&y.K), V: savedSide(&y.V), State: y.StateBytes,
		})
	}
	return h
}

// savedFrom returns the first page of a group that is saved. It is the first page
// that a row at the end of the prompt can see, if the sequence still holds it.
func (c *Cache) savedFrom(s *sequence, g int) int {
	w, n := c.pools[g].window, s.len
	if s.keep > 0 {
		n = min(n, s.keep)
	}
	return max(s.first[g], visible(n, w))
}

// savedWith reports whether a sequence saved with header h can be cut to pos.
func (c *Cache) savedWith(s *sequence, h *sessionHeader, pos int) bool {
	if !c.readable(s, pos) || c.states.on() && !slices.Contains(h.Marks, pos) {
		return false
	}
	for g := range c.pools {
		if visible(pos, c.pools[g].window) < c.savedFrom(s, g) {
			return false
		}
	}
	return true
}

// refused adds ErrSession to the error about a damaged self-calibration.
func refused(err error) error {
	if errors.Is(err, layout.ErrCalibration) {
		return fmt.Errorf("%w: %w", ErrSession, err)
	}
	return err
}

// savedSide describes K or V of a layer.
func savedSide(s *layout.Side) sessionSide {
	if s.Active == nil {
		return sessionSide{}
	}
	y := sessionSide{
		Type: s.Active.Name, Form: s.Active.Identity(), HeadDim: s.HeadDim, Padded: s.Padded,
		Row: s.RowBytes, ExactRow: s.ExactRow, PinnedRow: s.PinnedRow, Channels: kv.ChannelsIdentity(s.Channels),
	}
	if s.SelfCalibrated {
		y.Channels = "own"
	}
	if s.Exact != nil {
		y.ExactForm = s.Exact.Identity()
	}
	if s.Pinned != nil {
		y.PinnedForm = s.Pinned.Identity()
	}
	return y
}

// measure rejects a memory whose row sizes differ from the layout's.
func (c *Cache) measure(rows Rows) error {
	for i := range c.layout.Layers {
		y := &c.layout.Layers[i]
		if !y.Owns() {
			continue
		}
		for _, s := range []kv.Side{kv.K, kv.V} {
			for _, p := range []layout.Tier{layout.Packed, layout.Exact, layout.Pinned, layout.Measured} {
				if got, want := rows.RowBytes(i, s, p), y.Side(s).Row(p); got != want {
					return fmt.Errorf("kv: layer %d %v: the memory holds rows of %d bytes, but the layout has %d", y.Layer, s, got, want)
				}
			}
		}
	}
	return nil
}

// differs describes the first difference between a saved header and this cache's
// own header. It returns "" if they match.
func (h *sessionHeader) differs(here *sessionHeader) string {
	switch {
	case h.Model != here.Model:
		return "it belongs to another model"
	case h.Page != here.Page:
		return fmt.Sprintf("its pages hold %d positions, here %d", h.Page, here.Page)
	case len(h.Layers) != len(here.Layers):
		return fmt.Sprintf("it has %d layers, here %d", len(h.Layers), len(here.Layers))
	case len(h.Groups) != len(here.Groups):
		return fmt.Sprintf("it has %d window groups, here %d", len(h.Groups), len(here.Groups))
	}
	for i := range h.Layers {
		a, b := &h.Layers[i], &here.Layers[i]
		switch why := a.K.differs(&b.K); {
		case why != "":
			return fmt.Sprintf("layer %d K: %s", b.Layer, why)
		case a.V != b.V:
			return fmt.Sprintf("layer %d V: %s", b.Layer, a.V.differs(&b.V))
		case a.State != b.State:
			return fmt.Sprintf("layer %d: %d bytes of state, here %d", b.Layer, a.State, b.State)
		case *a != *b:
			return fmt.Sprintf("layer %d: another arrangement of KV heads or windows", b.Layer)
		}
	}
	for g := range h.Groups {
		switch a, b := &h.Groups[g], &here.Groups[g]; {
		case a.Window != b.Window:
			return fmt.Sprintf("a window of %d positions, here %d", a.Window, b.Window)
		case a.Newest != b.Newest || a.Pinned != b.Pinned:
			return fmt.Sprintf("an exact window of %d and %d sinks, here %d and %d", a.Newest, a.Pinned, b.Newest, b.Pinned)
		}
	}
	if h.Memory != here.Memory || h.Step != here.Step {
		return fmt.Sprintf("%d bytes for a conversation, here %d", h.Memory, here.Memory)
	}
	if h.Policy != here.Policy {
		return fmt.Sprintf("layer policy %d, here %d", h.Policy, here.Policy)
	}
	return ""
}

// misplaced describes what is wrong with the checkpoints and points of a saved
// sequence, given whether the model has recurrent states. It returns "" if nothing
// is wrong.
func (h *sessionHeader) misplaced(states bool) string {
	if n := len(h.Marks); n > maxSaved || n > 0 && !states {
		return fmt.Sprintf("%d checkpoints, at most %d in models with recurrent state", n, maxSaved)
	}
	last := 0
	for _, pos := range h.Marks {
		if pos <= last || pos >= h.Len {
			return fmt.Sprintf("a checkpoint at %d after %d, of %d positions", pos, last, h.Len)
		}
		last = pos
	}
	if n := len(h.Points); n > maxPoints {
		return fmt.Sprintf("%d points, at most %d are possible", n, maxPoints)
	}
	last = 0
	for _, pos := range h.Points {
		if pos <= last || pos >= h.Len || !states && pos%kv.PageCells != 0 {
			return fmt.Sprintf("a point at %d after %d, of %d positions", pos, last, h.Len)
		}
		last = pos
	}
	return ""
}

// points returns the points of a saved sequence.
func (h *sessionHeader) points() (list []point) {
	for _, pos := range h.Points {
		list = append(list, point{pos: pos})
	}
	return list
}

func (s *sessionSide) differs(here *sessionSide) string {
	switch {
	case *s == *here:
		return ""
	case s.Type != here.Type:
		return fmt.Sprintf("saved as %q, here %q", s.Type, here.Type)
	case s.HeadDim != here.HeadDim || s.Padded != here.Padded:
		return fmt.Sprintf("heads of %d padded to %d, here %d to %d", s.HeadDim, s.Padded, here.HeadDim, here.Padded)
	case s.Row != here.Row:
		return fmt.Sprintf("rows of %d bytes, here %d", s.Row, here.Row)
	case s.ExactRow != here.ExactRow || s.PinnedRow != here.PinnedRow:
		return fmt.Sprintf("exact rows of %d and %d bytes, here %d and %d", s.ExactRow, s.PinnedRow, here.ExactRow, here.PinnedRow)
	}
	if s.Channels != here.Channels {
		return "another calibration of the keys, or one for a context of another size"
	}
	return "another rotation or code book under the same name"
}
