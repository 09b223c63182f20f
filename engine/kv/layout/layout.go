// Package layout decides what every layer of a KV cache stores: its type, its exact
// window, its page pools and their bytes. It holds the rules of policies, presets
// and memory budgets, and the calibration of keys. Resolve is pure. Package kv has
// the glossary.
package layout

import (
	"log/slog"
	"slices"
	"sort"

	"godwit/engine/kv"
	"godwit/engine/kv/internal/sat"
)

// PagesOf returns the number of pages for n positions.
func PagesOf(n int) int { return (n + kv.PageCells - 1) / kv.PageCells }

// LayerInfo is what Resolve needs to know about one layer of a model.
type LayerInfo struct {
	Layer              int
	Cached             bool // false if the layer keeps no K and V (recurrent, convolution)
	Heads, KVHeads     int
	HeadDimK, HeadDimV int     // from the weights; for MLA, the sizes of the latent row and of its view
	Window             int     // number of positions that a row sees, including its own; 0 for all
	Share              int     // index of the layer whose cache this one reads; -1 for its own
	MLA                bool    // V is the first HeadDimV values of K
	Bidirectional      bool    // rows see later rows too
	RopeBase           float32 // RoPE base; 0 for none
	Rotary             Rotary  // RoPE of keys and queries
	StateBytes         int64   // recurrent state of one sequence; 0 for none
	Signals            Signals
}

// Signals are a model file's statements about the head size; zero if missing.
type Signals struct {
	KeyLength, KeyLengthMLA, KeyLengthSWA, ValueLength int
	Embd, Heads                                        int
}

// Layout describes what every layer stores and how. The memory plan, the API, the
// panel, the log and the session header all print it.
type Layout struct {
	Layers   []Layer
	Groups   []Group
	Events   []Event
	Want     Want
	Settings Settings
	Policy   int // the active layer policy, 0 to 7
	// Passing is the memory for exact pages that exist for one batch only, by side.
	// All layers share it, so it has the size of the largest.
	Passing [2]int64
}

// Group is a set of layers with the same window and exact window. They share page
// tables and pools.
type Group struct {
	Window         int    // 0 for all positions
	Exact          Window // range that is also kept in exact form
	Layers         []int  // indices in Layout.Layers of the layers with cells of their own
	Pages          int    // pages in the pool
	ExactPages     int    // exact pages in the pool
	Passing        int    // passing exact pages after ExactPages, in memory that all layers share
	PackedByPage   bool   // at least one side of a layer is packed by page
	SelfCalibrated bool   // conversations calibrate the keys of a layer
}

// Cells returns the number of cells in the pool of each layer of the group.
func (g *Group) Cells() int { return g.Pages * kv.PageCells }

// Layer is one layer of a Layout.
type Layer struct {
	Layer          int
	K, V           Side
	Heads, KVHeads int
	Window         int    // positions a row sees; 0 for all
	Exact          Window // range that is also kept in exact form
	Group          int    // index in Layout.Groups; -1 without K and V
	Share          int    // index of the layer whose cells it reads; -1 for its own
	Lends          bool   // other layers read its cells
	MLA            bool
	Rotary         Rotary    // RoPE of the keys
	Temper         kv.Temper // multiplier of finished logits over K
	RopeBase       float32   // for encoders that need it
	StateBytes     int64     // recurrent state of one sequence; 0 for none
}

// Owns reports whether the layer has cells of its own.
func (l *Layer) Owns() bool { return l.Group >= 0 && l.Share < 0 }

// Side returns K or V of the layer.
func (l *Layer) Side(s kv.Side) *Side {
	if s == kv.V {
		return &l.V
	}
	return &l.K
}

// Side is K or V of one layer.
type Side struct {
	Wanted, Active *kv.Type
	Reason         string // why Active differs from the request; empty if it does not
	HeadDim        int    // values of a head without padding
	Padded         int    // values of a head in the rotated domain, with padding
	HeadBytes      int    // bytes of one head of one token
	RowBytes       int    // bytes of one token, all KV heads; 0 where nothing is stored (shared, or a view of K)
	View           bool   // V is read from the rows of K
	Bytes          int64  // bytes of the whole pool
	Segments       []kv.Segment
	Channels       []kv.Channels // calibration, one per KV head; nil for none
	Equalised      bool          // InnerQ equalises the channels, or will do so
	SelfCalibrated bool          // every conversation has its own calibration
	Sense          float64       // divergence of the model, in nats, with this cache alone at the fewest bits; 0 if not measured

	Exact      *kv.Type // form of exact pages, in the same rotated domain; nil for none
	ExactRow   int      // bytes of one token in exact form, all KV heads
	Pinned     *kv.Type // form of pinned rows; nil for none
	PinnedRow  int
	SelfRow    int   // bytes of a conversation's own calibration, all KV heads; 0 for none
	SelfBytes  int   // memory of that calibration, including the resulting channels
	ExactBytes int64 // bytes of exact pages, pinned rows and own calibrations
}

// Form returns the encoding of a tier; nil if the side has no such tier.
func (s *Side) Form(p Tier) *kv.Type {
	switch p {
	case Exact:
		return s.Exact
	case Pinned:
		return s.Pinned
	case Measured:
		return nil
	}
	return s.Active
}

// Row returns the size of a token in a tier, all KV heads; 0 where nothing is
// stored.
func (s *Side) Row(p Tier) int {
	switch p {
	case Exact:
		return s.ExactRow
	case Pinned:
		return s.PinnedRow
	case Measured:
		return s.SelfRow
	}
	return s.RowBytes
}

// PackedByPage reports whether rows are packed by page, from their exact form.
func (s *Side) PackedByPage() bool { return s.Exact != nil && s.Active.PackedByPage() }

// Event is a line for the log of a load, with key and value pairs.
type Event struct {
	Level slog.Level
	Text  string
	Attrs []slog.Attr
}

// resize sets the page pools and the bytes of every side for a number of cells
// that all sequences share.
func (l *Layout) resize(cells int) {
	l.Settings.Cells = cells
	for g := range l.Groups {
		l.Groups[g].Pages = l.pages(&l.Groups[g], cells)
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		n := l.Groups[y.Group].Cells()
		y.K.Bytes, y.V.Bytes = sat.Mul(int64(y.K.RowBytes), n), sat.Mul(int64(y.V.RowBytes), n)
	}
	l.resizeExact()
}

// pages returns the number of pages in the pool of a group. It covers all
// cells. For a window it covers only what one ubatch of every sequence can see
// from the page border before it.
func (l *Layout) pages(g *Group, cells int) int {
	all := (cells + kv.PageCells - 1) / kv.PageCells
	if g.Window == 0 {
		return all
	}
	return min(all, max(l.Settings.Seqs, 1)*l.WindowPages(g.Window))
}

// WindowPages returns the number of pages of a window group that one ubatch of a
// sequence can see, counted from the page border before it.
func (l *Layout) WindowPages(window int) int {
	return (window+l.Settings.ubatch()+kv.PageCells-1)/kv.PageCells + 2
}

// Bytes returns the memory of all cells in all tiers, or the largest int64 on
// overflow.
func (l *Layout) Bytes() int64 {
	n := sat.Add(l.Passing[kv.K], l.Passing[kv.V])
	for i := range l.Layers {
		k, v := &l.Layers[i].K, &l.Layers[i].V
		n = sat.Add(n, sat.Add(sat.Add(k.Bytes, v.Bytes), sat.Add(k.ExactBytes, v.ExactBytes)))
	}
	return n
}

// ExactTotal returns the memory of exact pages, pinned rows and the calibrations of
// conversations.
func (l *Layout) ExactTotal() int64 {
	n := sat.Add(l.Passing[kv.K], l.Passing[kv.V])
	for i := range l.Layers {
		n = sat.Add(n, sat.Add(l.Layers[i].K.ExactBytes, l.Layers[i].V.ExactBytes))
	}
	return n
}

// StateTotal returns the memory of all recurrent states and their checkpoints.
func (l *Layout) StateTotal() int64 { return sat.Mul(l.StateBytes(), l.StateSlots()) }

// BytesPerToken returns the bytes of one more token of context, without
// windows.
func (l *Layout) BytesPerToken() int {
	n := 0
	for i := range l.Layers {
		y := &l.Layers[i]
		if y.Owns() && l.Groups[y.Group].Window == 0 {
			n += y.K.RowBytes + y.V.RowBytes
		}
	}
	return n
}

// StateBytes returns the size of the recurrent state of one sequence over all
// layers.
func (l *Layout) StateBytes() int64 {
	var n int64
	for i := range l.Layers {
		n += l.Layers[i].StateBytes
	}
	return n
}

// StateSlots returns the number of recurrent states: one live state per
// sequence, and the checkpoints.
func (l *Layout) StateSlots() int {
	if l.StateBytes() == 0 {
		return 0
	}
	return max(l.Settings.Seqs, 1) + l.Settings.checkpoints()
}

// BytesAt returns the memory of the cache and the recurrent states with a number
// of cells in the pools and at most ubatch rows in a run.
func (l *Layout) BytesAt(cells, ubatch int) int64 {
	c := *l
	c.Layers, c.Groups = slices.Clone(l.Layers), slices.Clone(l.Groups)
	c.Settings.UBatch = ubatch
	c.resize(cells)
	return sat.Add(c.Bytes(), c.StateTotal())
}

// LargestContext returns the largest number of cells, a multiple of PageCells,
// that fits in budget bytes; 0 if not even one page fits.
func (l *Layout) LargestContext(budget int64) int {
	return Largest(func(cells int) int64 { return l.BytesAt(cells, l.Settings.UBatch) }, budget)
}

// Largest returns the largest number of cells, a multiple of PageCells, for which
// bytes stays within the budget. bytes must not decrease with the number of cells.
// It returns 0 if not even one page fits.
func Largest(bytes func(cells int) int64, budget int64) int {
	return kv.PageCells * sort.Search(MaxCells/kv.PageCells, func(p int) bool { return bytes((p+1)*kv.PageCells) > budget })
}

// Slice returns the layout with only the cells and states of the layers [from, to).
// Layers and groups keep their numbers.
func (l *Layout) Slice(from, to int) Layout {
	p := *l
	p.Layers, p.Groups = slices.Clone(l.Layers), slices.Clone(l.Groups)
	for i := range p.Layers {
		if i < from || i >= to {
			p.Layers[i] = Layer{Layer: l.Layers[i].Layer, Group: -1, Share: -1}
		}
	}
	for g := range p.Groups {
		p.Groups[g].Layers = slices.DeleteFunc(slices.Clone(l.Groups[g].Layers), func(i int) bool { return i < from || i >= to })
	}
	return p
}
