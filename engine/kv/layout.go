package kv

import (
	"log/slog"
	"math"
	"slices"
	"sort"
)

// PageCells is the number of consecutive positions of one sequence in a page.
const PageCells = 64

// LayerInfo is what Resolve has to know about one layer of a model.
type LayerInfo struct {
	Layer              int
	Cached             bool // false: the layer keeps no K and V (recurrent, convolution)
	Heads, KVHeads     int
	HeadDimK, HeadDimV int     // as the weights say; for MLA the latent row and its view
	Window             int     // positions a row sees, itself among them; 0: all
	Share              int     // the layer whose cache it reads; -1: its own
	MLA                bool    // V is the first HeadDimV values of K
	Bidirectional      bool    // rows see what comes after them
	RopeBase           float32 // base of the rotary embedding; 0: none
	Rotary             Rotary  // how keys and queries are turned by their position
	StateBytes         int64   // recurrent state of one sequence; 0: none
	Signals            Signals
}

// Signals are what a model file says about the head size; zero: not there.
type Signals struct {
	KeyLength, KeyLengthMLA, KeyLengthSWA, ValueLength int
	Embd, Heads                                        int
}

// Layout says what every layer stores and how. It is the one value that
// memory plan, API, panel, log and save header print.
type Layout struct {
	Layers   []LayerLayout
	Groups   []Group
	Events   []Event
	Want     Want
	Settings Settings
	Policy   int // the layer policy in force, 0 to 7
	// Passing is the memory of exact pages that a chunk begins and leaves
	// behind, by side: the largest of any layer, shared by all.
	Passing [2]int64
}

// Group is the layers with one window and one exact window; they share page
// tables and pools.
type Group struct {
	Window     int    // 0: all positions
	Exact      Window // what is kept in exact form too
	Layers     []int  // indices into Layout.Layers of the layers that own cells
	Pages      int    // pages in the pool
	ExactPages int    // exact pages in the pool
	Passing    int    // exact pages after those, whose memory all layers share
	Late       bool   // a side of a layer is packed by page
	Own        bool   // keys of a layer are calibrated by each conversation
}

// Cells is the number of cells in the pool of each layer of the group.
func (g *Group) Cells() int { return g.Pages * PageCells }

// LayerLayout is one layer of a Layout.
type LayerLayout struct {
	Layer          int
	K, V           SideLayout
	Heads, KVHeads int
	Window         int    // positions a row sees; 0: all
	Exact          Window // what is kept in exact form too
	Group          int    // index into Layout.Groups; -1: no K and V
	Share          int    // index of the layer whose cells it reads; -1: its own
	Lends          bool   // other layers read its cells
	MLA            bool
	Rotary         Rotary  // how keys are turned by their position
	Temper         Temper  // what finished logits over K are multiplied with
	RopeBase       float32 // for encoders that need it
	StateBytes     int64   // recurrent state of one sequence; 0: none
}

// Owns reports whether the layer has cells of its own.
func (l *LayerLayout) Owns() bool { return l.Group >= 0 && l.Share < 0 }

// Side returns K or V of the layer.
func (l *LayerLayout) Side(s Side) *SideLayout {
	if s == V {
		return &l.V
	}
	return &l.K
}

// SideLayout is K or V of one layer.
type SideLayout struct {
	Wanted, Active *Type
	Reason         string // in words; empty where the wish is met as it stands
	HeadDim        int    // real values of a head
	Padded         int    // values of a head in the rotated domain, zeros included
	HeadBytes      int    // one head of one token
	RowBytes       int    // one token, all KV heads; 0 where nothing is stored (shared, or a view of K)
	View           bool   // V that is read from the rows of K
	Bytes          int64  // the whole pool
	Segments       []Segment
	Channels       []Channels // calibration, one a KV head; nil: none
	Even           bool       // they are InnerQ's, or will be
	Own            bool       // every conversation has its own
	Sense          float64    // divergence of the model, in nats, with this cache alone at the least bits; 0: not measured

	Exact      *Type // the form of exact pages, in the same rotated domain; nil: none
	ExactRow   int   // one token in it, all KV heads
	Sinks      *Type // the form of exact sinks; nil: none
	SinkRow    int
	OwnRow     int   // a conversation's own calibration, all KV heads; 0: none
	OwnBytes   int   // its memory, with what comes of it
	ExactBytes int64 // exact pages, sinks and own calibrations
}

// Form is the encoding of a part; nil where there is none.
func (s *SideLayout) Form(p Part) *Type {
	switch p {
	case Exact:
		return s.Exact
	case Sinks:
		return s.Sinks
	case Measured:
		return nil
	}
	return s.Active
}

// Row is the size of a token in a part, all KV heads; 0 where nothing is stored.
func (s *SideLayout) Row(p Part) int {
	switch p {
	case Exact:
		return s.ExactRow
	case Sinks:
		return s.SinkRow
	case Measured:
		return s.OwnRow
	}
	return s.RowBytes
}

// Late reports whether rows are packed by page, from their exact form.
func (s *SideLayout) Late() bool { return s.Exact != nil && s.Active.Late() }

// Event is a line for the log of a load: said once, with key and value pairs.
type Event struct {
	Level slog.Level
	Text  string
	Attrs []slog.Attr
}

// resize sets the page pools, and the bytes of every side, for a number of
// cells that all sequences share.
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
		y.K.Bytes, y.V.Bytes = mulSat(int64(y.K.RowBytes), n), mulSat(int64(y.V.RowBytes), n)
	}
	l.resizeExact()
}

// pages is the pool of a group: all cells, or for a window what one ubatch of
// every sequence can see, cut back to a page border before it.
func (l *Layout) pages(g *Group, cells int) int {
	all := (cells + PageCells - 1) / PageCells
	if g.Window == 0 {
		return all
	}
	seqs := max(l.Settings.Seqs, 1)
	each := (g.Window+l.Settings.ubatch()+PageCells-1)/PageCells + 2
	return min(all, seqs*each)
}

// Bytes is the memory of all cells, both parts; the largest int64 where that
// is too small.
func (l *Layout) Bytes() int64 {
	n := addSat(l.Passing[K], l.Passing[V])
	for i := range l.Layers {
		k, v := &l.Layers[i].K, &l.Layers[i].V
		n = addSat(n, addSat(addSat(k.Bytes, v.Bytes), addSat(k.ExactBytes, v.ExactBytes)))
	}
	return n
}

// StateTotal is the memory of all recurrent states and their checkpoints.
func (l *Layout) StateTotal() int64 { return mulSat(l.StateBytes(), l.StateSlots()) }

// addSat and mulSat work on non-negative numbers and stop at the largest.
func addSat(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func mulSat(a int64, n int) int64 {
	if n > 0 && a > math.MaxInt64/int64(n) {
		return math.MaxInt64
	}
	return a * int64(n)
}

// BytesPerToken is what one more token of context takes, windows left out.
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

// StateBytes is the recurrent state of one sequence over all layers.
func (l *Layout) StateBytes() int64 {
	var n int64
	for i := range l.Layers {
		n += l.Layers[i].StateBytes
	}
	return n
}

// StateSlots is the number of recurrent states that are kept: one live state
// a sequence, and the checkpoints.
func (l *Layout) StateSlots() int {
	if l.StateBytes() == 0 {
		return 0
	}
	return max(l.Settings.Seqs, 1) + l.Settings.checkpoints()
}

// LargestContext is the largest number of cells, a multiple of PageCells,
// whose memory is at most budget bytes; 0 if not even one page fits.
func (l *Layout) LargestContext(budget int64) int {
	c := *l
	c.Layers, c.Groups = slices.Clone(l.Layers), slices.Clone(l.Groups)
	pages := sort.Search(maxCells/PageCells, func(p int) bool {
		c.resize((p + 1) * PageCells)
		return addSat(c.Bytes(), c.StateTotal()) > budget
	})
	return pages * PageCells
}

// Part is the layout with the cells and states of layers from to to-1 alone;
// the others keep nothing. Layers and groups keep their numbers.
func (l *Layout) Part(from, to int) Layout {
	p := *l
	p.Layers, p.Groups = slices.Clone(l.Layers), slices.Clone(l.Groups)
	for i := range p.Layers {
		if i < from || i >= to {
			p.Layers[i] = LayerLayout{Layer: l.Layers[i].Layer, Group: -1, Share: -1}
		}
	}
	for g := range p.Groups {
		p.Groups[g].Layers = slices.DeleteFunc(slices.Clone(l.Groups[g].Layers), func(i int) bool { return i < from || i >= to })
	}
	return p
}
