package layout

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"godwit/engine/kv"
	"godwit/engine/kv/internal/sat"
)

// ErrBudget is the class of errors about a memory for a conversation that is too
// small.
var ErrBudget = errors.New("kv: too little memory for a conversation")

// BudgetError says that a conversation of Positions does not fit in Bytes.
type BudgetError struct {
	Positions int
	Bytes     int64
	Least     int64 // smallest memory that is enough
	Largest   int   // longest conversation that fits, in whole pages; 0 for none
}

func (e *BudgetError) Error() string {
	text := fmt.Sprintf("%v: %d tokens in %s; at least %d KiB are needed", ErrBudget, e.Positions, kib(e.Bytes), (e.Least+1023)>>10)
	if e.Largest > 0 {
		return text + fmt.Sprintf(", or a context of at most %d tokens", e.Largest)
	}
	return text + ", and no shorter context fits"
}

// kib formats a number of bytes, in whole KiB if there are many.
func kib(n int64) string {
	if n < 10<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// Unwrap returns ErrBudget.
func (e *BudgetError) Unwrap() error { return ErrBudget }

// Budget is the memory of one conversation. It decides how many of the newest pages
// a row reads in exact form, by the row's position alone.
//
// A conversation of n pages has n packed pages, and at most what is left of Bytes
// for exact pages. A part of the rest is reserved for the next chunk: its rows need
// the exact pages of the first row and the pages of the last one at the same time.
// Reuse points take what the chunk leaves of the reserve.
type Budget struct {
	Bytes  int64
	Chunk  int   // largest chunk that the reserve is made for, in pages
	fixed  int64 // bytes of a conversation of any length
	groups []budgetGroup
	first  []int32 // first exact page, by the page of the reading row
	leaves []int32 // by page: the first page whose rows read that page in packed form
}

// budgetGroup is the share of a group in a conversation.
type budgetGroup struct {
	packed, exact int64 // bytes of a page
	window        int   // positions that a row sees; 0 for all
}

// chunkPages is the smallest chunk for which there is a reserve while there is
// enough memory.
const chunkPages = 8

// NewBudget returns the budget of a layout.
func NewBudget(l *Layout) *Budget {
	b := &Budget{Bytes: l.Settings.Memory, Chunk: max(chunkPages, PagesOf(l.Settings.Undivided)+1)}
	for g := range l.Groups {
		b.groups = append(b.groups, budgetGroup{window: l.Groups[g].Window})
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		g := &b.groups[y.Group]
		for _, x := range []*Side{&y.K, &y.V} {
			g.packed += int64(x.RowBytes * kv.PageCells)
			g.exact += int64(x.ExactRow * kv.PageCells)
			b.fixed += int64(x.PinnedRow*y.Exact.Pinned + x.SelfBytes)
		}
	}
	return b
}

// packed returns the bytes of n packed pages. In a group with a window, only pages
// that a row of the next chunk sees count.
func (b *Budget) packed(n int) (sum int64) {
	for _, g := range b.groups {
		held := n
		if g.window > 0 {
			held = min(n, PagesOf(g.window)+1+b.Chunk)
		}
		sum = sat.Add(sum, sat.Mul(g.packed, held))
	}
	return sum
}

// Packed returns the bytes of a conversation of n pages without exact pages.
func (b *Budget) Packed(n int) int64 { return b.fixed + b.packed(n) }

// Exact returns the bytes of n exact pages of a group.
func (b *Budget) Exact(group, n int) int64 { return sat.Mul(b.groups[group].exact, n) }

// exact returns the bytes of the newest n pages in exact form.
func (b *Budget) exact(n int) (sum int64) {
	for _, g := range b.groups {
		sum = sat.Add(sum, sat.Mul(g.exact, g.sees(n)))
	}
	return sum
}

// sees returns how many of the newest n pages a row can see.
func (g *budgetGroup) sees(n int) int {
	if g.window > 0 {
		return min(n, PagesOf(g.window)+1)
	}
	return n
}

// step returns the bytes of one more page in both forms.
func (b *Budget) step() (sum int64) {
	for _, g := range b.groups {
		sum = sat.Add(sum, sat.Add(g.packed, g.exact))
	}
	return sum
}

// window returns the number of exact pages that the rows of page q read, including
// their own. It does not increase with q, except while all pages are exact.
func (b *Budget) window(q int) int {
	left := b.Bytes - b.fixed - b.packed(q+1)
	least := sat.Mul(b.step(), b.least())
	left -= min(max(left/4, least), sat.Mul(b.step(), b.Chunk))
	return sort.Search(q+1, func(n int) bool { return b.exact(n+1) > left })
}

// least returns the number of pages that the reserve always covers. It is more than
// one if some rows must be read in one step.
func (b *Budget) least() int {
	if b.Chunk > chunkPages {
		return b.Chunk
	}
	return 1
}

// cap returns the largest number of exact pages that a conversation can hold in a
// group without a window.
func (b *Budget) cap() int {
	holds := func(n int) int64 { return sat.Add(b.fixed, sat.Add(b.packed(n), b.exact(n))) }
	return sort.Search(MaxCells/kv.PageCells, func(n int) bool { return holds(n+1) > b.Bytes })
}

// fits returns a BudgetError if a conversation of n positions does not fit, with
// newest positions exact.
func (b *Budget) fits(n, newest int) error {
	fits := func(bytes int64, pages int) bool {
		c := *b
		c.Bytes = bytes
		return c.window(pages-1) >= min(pages, PagesOf(newest-1)+1)
	}
	pages := max(PagesOf(n), 1)
	if fits(b.Bytes, pages) {
		return nil
	}
	e := &BudgetError{Positions: n, Bytes: b.Bytes, Least: firstSize(func(bytes int64) bool { return fits(bytes, pages) })}
	e.Largest = kv.PageCells * sort.Search(pages-1, func(p int) bool { return !fits(b.Bytes, p+1) })
	return e
}

// fill computes the tables for a number of pages.
func (b *Budget) fill(pages int) {
	b.first, b.leaves = make([]int32, pages), make([]int32, 0, pages)
	for q := range b.first {
		b.first[q] = int32(q + 1 - b.window(q))
		for len(b.leaves) < int(b.first[q]) {
			b.leaves = append(b.leaves, int32(q))
		}
	}
}

// firstExact returns the first page that rows of page q read in exact form.
func (b *Budget) firstExact(q int) int {
	if q < len(b.first) {
		return int(b.first[q])
	}
	return q + 1 - b.window(q)
}

// leaving returns the first position that reads page i in packed form.
func (b *Budget) leaving(i int) int {
	if i < len(b.leaves) {
		return int(b.leaves[i]) * kv.PageCells
	}
	return math.MaxInt32
}

// Window returns the number of newest positions that a row at pos reads in exact form
// in layers that see all positions. The row's own page counts up to the row.
func (b *Budget) Window(pos int) int { return pos + 1 - b.firstExact(pos/kv.PageCells)*kv.PageCells }

// AllExact returns the smallest memory of a conversation with which every row of the
// longest one reads all positions in exact form. It returns 0 without a budget.
func (l *Layout) AllExact() int64 {
	b := l.Budget()
	if b == nil {
		return 0
	}
	pages, c := PagesOf(l.reach()), *b
	return firstSize(func(bytes int64) bool {
		c.Bytes = bytes
		return c.window(pages-1) == pages
	})
}

// firstSize returns the first number of bytes that is enough.
func firstSize(enough func(bytes int64) bool) int64 {
	low, high := int64(0), int64(1)<<62
	for low < high {
		if mid := low + (high-low)/2; enough(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return high
}

// reads returns the bytes of a conversation of n positions, without reuse points.
func (b *Budget) reads(n int) int64 {
	q := (n - 1) / kv.PageCells
	return b.fixed + b.packed(q+1) + b.exact(q+1-b.firstExact(q))
}

// ExactAt returns the number of newest positions that the last row of conversations of
// these lengths reads in exact form. Without a budget the list is empty.
func (l *Layout) ExactAt(lengths []int) []int {
	list := []int{}
	if b := l.Budget(); b != nil {
		for _, n := range lengths {
			list = append(list, max(b.Window(n-1), 0))
		}
	}
	return list
}

// Budget returns the memory of one conversation, or nil if it decides nothing.
func (l *Layout) Budget() *Budget {
	for g := range l.Groups {
		if b := l.Groups[g].Exact.Budget; b != nil {
			return b
		}
	}
	return nil
}

// at returns the number of newest positions that a row at pos reads in exact form.
func (w Window) at(pos int) int {
	if w.Budget == nil {
		return w.Newest
	}
	return min(w.Newest, w.Budget.Window(pos))
}

// whole returns the length up to which every row reads all pages in exact form.
func (b *Budget) whole() int {
	return kv.PageCells * sort.Search(MaxCells/kv.PageCells, func(q int) bool { return b.firstExact(q) > 0 })
}

// reach returns the longest conversation for which the memory of one must be enough.
func (l *Layout) reach() int {
	if l.Settings.Reach > 0 {
		return l.Settings.Reach
	}
	return max(l.Settings.Cells, 1)
}
