package layout

import (
	"fmt"
	"log/slog"
	"math"
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/internal/sat"
)

// Limits of Settings.ExactWindow and ExactSinks.
const (
	maxWindow = 1 << 16
	maxPinned = kv.PageCells
)

// allPositions is the exact window of a layer that only a Budget limits.
const allPositions = MaxCells

// Window is the range of positions that a layer also keeps in exact form.
type Window struct {
	Pinned, Newest int
	Budget         *Budget // limits the newest positions further; nil for none
}

// checkWindow rejects impossible settings.
func (s *Settings) checkWindow() error {
	if n := s.ExactWindow; n != nil && (*n < 0 || *n > maxWindow) {
		return fmt.Errorf("kv: an exact window of %d; 0 to %d are possible", *n, maxWindow)
	}
	if n := s.ExactSinks; n != nil && (*n < 0 || *n > maxPinned) {
		return fmt.Errorf("kv: %d exact sinks; 0 to %d are possible", *n, maxPinned)
	}
	if s.Memory < 0 || s.Reach < 0 || s.Undivided < 0 {
		return fmt.Errorf("kv: a memory of %d bytes for a conversation of %d positions", s.Memory, s.Reach)
	}
	return nil
}

// exactForms caches the forms of exact pages and of pinned rows by packed form. A
// layout must have only one of each, because forms are compared by address.
type exactForms struct{ pages, pinned map[*kv.Type]*kv.Type }

// half returns 16-bit floats in the rotated domain of t.
func half(t *kv.Type) *kv.Type {
	return &kv.Type{Name: "f16", Elems: 1, Bytes: 2, Float: true, Stored: kv.F16.Stored, Rotation: t.Rotation}
}

// eight returns q8_0 in the rotated domain of t. If t has 8 bits per value or more,
// so that q8_0 would not be more exact, it returns 16-bit floats.
func eight(t *kv.Type) *kv.Type {
	if t.Bytes*8 >= 8*t.Elems {
		return half(t)
	}
	return &kv.Type{Name: "q8_0", Elems: kv.Q8_0.Elems, Bytes: kv.Q8_0.Bytes, Codes: kv.Q8_0.Codes, Scale: kv.Q8_0.Scale, Rotation: t.Rotation}
}

// beside returns a form in t's rotated domain whose segments are of the form
// simple.
func beside(t *kv.Type, simple func(*kv.Type) *kv.Type) *kv.Type {
	switch {
	case t.Join != nil:
		f := &kv.Type{}
		for _, p := range t.Join {
			form := beside(p.Form, simple)
			if f.Name == "" {
				f.Name = form.Name
			}
			f.Join = append(f.Join, kv.Piece{Form: form, Dim: p.Dim})
		}
		return f
	case t.Float:
		return t
	}
	return simple(t)
}

// of returns the exact forms that go with t for heads of dim values. With a budget,
// pages are 16-bit floats like pinned rows.
func (e *exactForms) of(t *kv.Type, dim int, budget bool) (pages, pinned *kv.Type) {
	if e.pages == nil {
		e.pages, e.pinned = map[*kv.Type]*kv.Type{}, map[*kv.Type]*kv.Type{}
	}
	if e.pages[t] == nil {
		e.pages[t], e.pinned[t] = beside(t, eight), beside(t, half)
		if budget {
			e.pages[t] = e.pinned[t]
		}
	}
	pages, pinned = e.pages[t], e.pinned[t]
	if t.Padded(dim) != pages.Padded(dim) || t.Padded(dim) != pinned.Padded(dim) {
		panic(fmt.Sprintf("kv: the exact form of %s has %d values of a head of %d, its packed form %d", t.Name, pages.Padded(dim), dim, t.Padded(dim)))
	}
	return pages, pinned
}

// window gives a layer its exact window and pinned rows. Each side uses the
// default of its type or the user's setting. Plain floats get none, because no
// form is more exact.
func (r *resolver) window(y *Layer, in *LayerInfo, k, v *kv.Type) {
	if in.Bidirectional {
		return
	}
	for _, s := range []struct {
		side *Side
		t    *kv.Type
	}{{&y.K, k}, {&y.V, v}} {
		if s.side.Active.Float || s.side.View {
			continue
		}
		w := s.t.Window
		if r.set.ExactWindow != nil {
			w.Newest = *r.set.ExactWindow
		}
		if r.set.ExactSinks != nil {
			w.Pinned = *r.set.ExactSinks
		}
		if in.Window > 0 {
			w.Newest = min(w.Newest, in.Window)
		}
		if s.side.SelfCalibrated {
			w.Newest = max(w.Newest, selfNewest)
		}
		if r.set.Memory > 0 {
			r.newest = max(r.newest, w.Newest, 1)
			if w.Newest = allPositions; in.Window > 0 {
				w.Newest = in.Window
			}
		}
		pages, pinned := r.exact.of(s.side.Active, s.side.HeadDim, r.set.Memory > 0)
		if w.Newest > 0 {
			s.side.Exact, s.side.ExactRow = pages, pages.RowBytes(s.side.HeadDim)*y.KVHeads
		}
		if w.Pinned > 0 {
			s.side.Pinned, s.side.PinnedRow = pinned, pinned.RowBytes(s.side.HeadDim)*y.KVHeads
		}
		y.Exact = Window{Pinned: max(y.Exact.Pinned, w.Pinned), Newest: max(y.Exact.Newest, w.Newest)}
	}
}

// budget gives all layers the memory of a conversation as the limit of their exact
// windows.
func (r *resolver) budget() error {
	l := &r.out
	if l.Settings.Memory == 0 {
		return nil
	}
	b, reach := NewBudget(l), l.reach()
	if r.newest == 0 { // nothing is packed
		if need := sat.Add(b.fixed, b.packed(PagesOf(reach))); need > b.Bytes {
			return &BudgetError{
				Positions: reach, Bytes: b.Bytes, Least: need,
				Largest: Largest(func(n int) int64 { return b.packed(PagesOf(n)) }, b.Bytes-b.fixed),
			}
		}
		l.Events = append(l.Events, Event{Level: slog.LevelWarn, Text: "kv: the memory of a conversation changes nothing, because no layer has a packed type"})
		return nil
	}
	if err := b.fits(reach, r.newest); err != nil {
		return err
	}
	b.fill(PagesOf(max(reach, l.Settings.Cells)) + 1)
	for i := range l.Layers {
		if w := &l.Layers[i].Exact; w.Newest > 0 {
			w.Budget = b
		}
	}
	for g := range l.Groups {
		if w := &l.Groups[g].Exact; w.Newest > 0 {
			w.Budget = b
		}
	}
	return nil
}

// Held returns the number of pages that a sequence keeps in exact form: the
// pages of the newest positions, and as many before the end of its prompt,
// minus the page at which every reuse of the prompt starts reading again. With a
// budget, the two together are the most that it allows.
func (w Window) Held() (newest, prompt int) {
	if w.Newest == 0 {
		return 0, 0
	}
	if w.Unbounded() {
		return w.Budget.cap(), 0
	}
	prompt = (w.Newest - 1 + kv.PageCells - 1) / kv.PageCells
	return prompt + 1, prompt
}

// FirstKept returns the first page that a sequence of n positions keeps in exact
// form, for rows at or after the last page border before n. The border counts, not
// n, so that a sequence can always be cut back to a multiple of PageCells.
func (w Window) FirstKept(n int) int {
	if w.Newest == 0 {
		return max(n/kv.PageCells*kv.PageCells+1, 0) / kv.PageCells
	}
	return w.FirstExact(n / kv.PageCells * kv.PageCells)
}

// Unbounded reports whether only the budget limits the newest positions.
func (w Window) Unbounded() bool { return w.Budget != nil && w.Newest == allPositions }

// FirstExact returns the first page that a row at pos reads in exact form, which is
// the first page with one of the newest positions. Without a window it is the page
// after its own. Source: spec gw-formats.md "Window and sinks, exactly".
func (w Window) FirstExact(pos int) int {
	if w.Newest == 0 {
		return pos/kv.PageCells + 1
	}
	first := max(pos-w.Newest+1, 0) / kv.PageCells
	if w.Budget != nil {
		first = max(first, w.Budget.firstExact(pos/kv.PageCells))
	}
	return first
}

// Needs reports whether a row at pos reads the exact form of page i.
func (w Window) Needs(pos, i int) bool {
	return i*kv.PageCells < pos && i >= w.FirstExact(pos)
}

// Leaves returns the first position of a row that reads page i in packed form.
func (w Window) Leaves(i int) int {
	pos := (i+1)*kv.PageCells + max(w.Newest, 1) - 1
	if w.Budget != nil {
		pos = min(pos, w.Budget.leaving(i))
	}
	return pos
}

// PackSteps returns the number of steps over which the packing of a page is spread.
func (w Window) PackSteps() int {
	if w.Budget != nil {
		return kv.PageCells - 1
	}
	return max(w.Newest-1, 1)
}

// sparePoints is the number of points for which a cache has room when every
// sequence is in use and reads a chunk.
const sparePoints = 4

// exactShare is the share of a group's pages that can be exact at the same time,
// unless a single sequence needs more.
const exactShare = 4

// exactPages returns the size of a group's pool of exact pages. It covers what
// all sequences can use at once: the pages that each keeps, the pages that a
// chunk adds while it leaves others behind, and a few points. With admission
// control it is at most a share of the pages, or what one sequence can use. A
// page has at most one exact page.
func (l *Layout) exactPages(g *Group) int {
	newest, prompt := g.Exact.Held()
	if newest == 0 {
		return 0
	}
	seqs := max(l.Settings.Seqs, 1)
	if g.Exact.Unbounded() {
		most := min(g.Pages, mulInt(seqs, newest))
		if !l.Settings.Admitted {
			return most
		}
		return min(most, max(newest, g.Pages/exactShare))
	}
	passing := min(seqs*newest, l.Settings.ubatch()/kv.PageCells+seqs)
	most := seqs*(newest+prompt) + passing + l.spare(g)
	if !l.Settings.Admitted {
		return min(g.Pages, most)
	}
	one := 2*newest + prompt + min(sparePoints*prompt, (g.Pages+31)/32)
	return min(g.Pages, most, max(one, g.Pages/exactShare))
}

// spare returns the number of exact pages that a group has for points, beyond
// the worst-case need of its sequences. It is at most a 32nd of the group's
// pages.
func (l *Layout) spare(g *Group) int {
	newest, prompt := g.Exact.Held()
	others := (max(l.Settings.Seqs, 1) - 1) * (newest + prompt)
	return max(min(sparePoints*prompt, (g.Pages+31)/32)-others, 0)
}

// mulInt is a product that saturates.
func mulInt(a, b int) int { return int(min(sat.Mul(int64(a), b), math.MaxInt32)) }

// passing returns the number of exact pages that a chunk begins and leaves behind.
// Layers run one after another, so they can share the memory of these pages, except
// layers whose cells other layers read.
func (l *Layout) passing(g *Group) int {
	if g.Exact.Newest == 0 {
		return 0
	}
	return min(g.Pages, l.Settings.ubatch()/kv.PageCells)
}

// ExactPrivate returns the number of exact pages in the memory of a layer that owns
// cells. The pages after those are shared.
func (l *Layout) ExactPrivate(y *Layer) int {
	g := &l.Groups[y.Group]
	if y.Lends {
		return g.ExactPages + g.Passing
	}
	return g.ExactPages
}

// exactAlone returns the bytes of the exact tier with one sequence.
func (l *Layout) exactAlone() (n int64) {
	c := *l
	c.Layers, c.Groups = slices.Clone(l.Layers), slices.Clone(l.Groups)
	c.Settings.Seqs = 1
	c.resizeExact()
	for i := range c.Layers {
		n = sat.Add(n, sat.Add(c.Layers[i].K.ExactBytes, c.Layers[i].V.ExactBytes))
	}
	return n
}

// resizeExact sets the bytes of the exact tier of every side.
func (l *Layout) resizeExact() {
	l.Passing = [2]int64{}
	for g := range l.Groups {
		l.Groups[g].ExactPages, l.Groups[g].Passing = l.exactPages(&l.Groups[g]), l.passing(&l.Groups[g])
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		g := &l.Groups[y.Group]
		for _, s := range []kv.Side{kv.K, kv.V} {
			x := y.Side(s)
			x.ExactBytes = sat.Add(sat.Mul(int64(x.ExactRow), l.ExactPrivate(y)*kv.PageCells), sat.Mul(int64(x.PinnedRow), max(l.Settings.Seqs, 1)*y.Exact.Pinned))
			x.ExactBytes = sat.Add(x.ExactBytes, sat.Mul(int64(x.SelfBytes), max(l.Settings.Seqs, 1)))
			if !y.Lends {
				l.Passing[s] = max(l.Passing[s], sat.Mul(int64(x.ExactRow), g.Passing*kv.PageCells))
			}
		}
	}
}
