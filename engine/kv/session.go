package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// ErrSession is the class of errors about a saved sequence that this cache
// cannot take: another model or layout, or damage.
var ErrSession = errors.New("kv: saved sequence refused")

const (
	sessionMagic   = "gwkv\r\n\x1a\n"
	sessionVersion = 1
)

// sessionHeader says what the rows of a saved sequence are. Types are named,
// never numbered: numbers mean different formats in different programs.
type sessionHeader struct {
	Model  string         `json:"model"` // identity of the model file
	Page   int            `json:"page"`  // PageCells
	Len    int            `json:"len"`   // positions of the sequence
	Policy int            `json:"policy"`
	Groups []sessionGroup `json:"groups"`
	Layers []sessionLayer `json:"layers"`
}

type sessionGroup struct {
	Window int `json:"window"`
	From   int `json:"from"` // first position whose row is there
}

type sessionLayer struct {
	Layer int         `json:"layer"`
	Group int         `json:"group"` // -1: no rows
	Share int         `json:"share"` // index of the layer whose rows it reads; -1: its own
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
	Row     int    `json:"row"` // bytes of a token, read back from the memory
}

// header describes a sequence of n positions; groups start at from.
func (c *Cache) header(n int, from []int) *sessionHeader {
	l := c.layout
	h := &sessionHeader{Model: hex.EncodeToString(c.model[:]), Page: PageCells, Len: n, Policy: l.Policy}
	for g := range l.Groups {
		h.Groups = append(h.Groups, sessionGroup{l.Groups[g].Window, from[g]})
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		h.Layers = append(h.Layers, sessionLayer{
			Layer: y.Layer, Group: y.Group, Share: y.Share, Heads: y.KVHeads,
			K: y.K.session(), V: y.V.session(), State: y.StateBytes,
		})
	}
	return h
}

func (s *SideLayout) session() sessionSide {
	if s.Active == nil {
		return sessionSide{}
	}
	return sessionSide{s.Active.Name, s.Active.identity(), s.HeadDim, s.Padded, s.RowBytes}
}

// measure puts the row sizes that the memory really has into the header, and
// refuses a memory that is not what the layout says.
func (c *Cache) measure(h *sessionHeader, rows Rows) error {
	for i := range c.layout.Layers {
		y := &c.layout.Layers[i]
		if !y.Owns() {
			continue
		}
		for _, s := range []Side{K, V} {
			got, want := rows.RowBytes(i, s, Packed), y.Side(s).RowBytes
			if got != want {
				return fmt.Errorf("kv: layer %d %v: the memory holds rows of %d bytes, the layout says %d", y.Layer, s, got, want)
			}
		}
		h.Layers[i].K.Row, h.Layers[i].V.Row = rows.RowBytes(i, K, Packed), rows.RowBytes(i, V, Packed)
	}
	return nil
}

// differs says in words the first thing in which a saved header does not fit
// this cache's own; empty if it fits.
func (h *sessionHeader) differs(own *sessionHeader) string {
	switch {
	case h.Model != own.Model:
		return "it is of another model"
	case h.Page != own.Page:
		return fmt.Sprintf("its pages hold %d positions, here %d", h.Page, own.Page)
	case len(h.Layers) != len(own.Layers):
		return fmt.Sprintf("it has %d layers, here %d", len(h.Layers), len(own.Layers))
	case len(h.Groups) != len(own.Groups):
		return fmt.Sprintf("it has %d window groups, here %d", len(h.Groups), len(own.Groups))
	}
	for i := range h.Layers {
		a, b := &h.Layers[i], &own.Layers[i]
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
		if a, b := h.Groups[g].Window, own.Groups[g].Window; a != b {
			return fmt.Sprintf("a window of %d positions, here %d", a, b)
		}
	}
	if h.Policy != own.Policy {
		return fmt.Sprintf("layer policy %d, here %d", h.Policy, own.Policy)
	}
	return ""
}

func (s *sessionSide) differs(own *sessionSide) string {
	switch {
	case *s == *own:
		return ""
	case s.Type != own.Type:
		return fmt.Sprintf("saved as %q, here %q", s.Type, own.Type)
	case s.HeadDim != own.HeadDim || s.Padded != own.Padded:
		return fmt.Sprintf("heads of %d padded to %d, here %d to %d", s.HeadDim, s.Padded, own.HeadDim, own.Padded)
	case s.Row != own.Row:
		return fmt.Sprintf("rows of %d bytes, here %d", s.Row, own.Row)
	}
	return "another rotation or code book under the same name"
}

// identity is a digest of everything that decides what the bytes of a form
// mean: offsets, packing, levels and rotation.
func (t *Type) identity() string {
	sum := sha256.New()
	t.digest(func(v ...any) {
		for _, x := range v {
			fmt.Fprintf(sum, "%T:", x)
			if err := binary.Write(sum, binary.LittleEndian, x); err != nil {
				panic("kv: digest of " + t.Name + ": " + err.Error())
			}
		}
	})
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func (t *Type) digest(add func(v ...any)) {
	c, s, r := &t.Codes, &t.Scale, &t.Rotation
	add(int64(t.Elems), int64(t.Bytes), t.Float, uint32(t.Stored))
	add(int64(c.Bits), uint8(c.Packing), int64(c.At), int64(c.High), floatBits(c.Levels))
	add(int64(s.At), int64(s.Min), s.Affine, s.Unit)
	add(int64(r.Size), floatBits(r.Pre), floatBits(r.Mid), floatBits(r.Post), r.Inverse, r.Query)
	if t.Residual != nil {
		add(uint8(t.Residual.Rule), int64(t.Residual.At), int64(t.Residual.Bits), floatBits(t.Residual.Signs), t.Residual.Factor)
	}
	if t.Polar != nil {
		add(int64(t.Polar.Sigma), int64(t.Polar.Radius), int64(t.Polar.Angle))
	}
	if t.Cut != nil {
		for _, b := range t.Cut.blocks {
			b.digest(add)
		}
	}
	for _, p := range t.Join {
		add(int64(p.Dim))
		p.Form.digest(add)
	}
}

// floatBits is x with its length in front, so that neighbours cannot run together.
func floatBits(x []float32) []uint64 {
	out := make([]uint64, 1, 1+len(x))
	out[0] = uint64(len(x))
	for _, v := range x {
		out = append(out, uint64(math.Float32bits(v)))
	}
	return out
}
