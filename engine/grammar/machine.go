package grammar

import (
	"cmp"
	"slices"
)

// note holds what an item remembers, which is the text of a key so far, or the set
// of keys of an object. Notes are interned.
type note struct {
	up   *note // a text without its last byte, or a set without its newest key
	key  *note // newest key of a set
	char byte  // last byte of a text
	size int32
	id   uint32
}

// fresh stands for the text of a key that the current token opened. The same
// token cannot close that key. A token can therefore complete a key only if the
// key began before the token. Later tokens decide which key it is.
var fresh = &note{id: 1}

// item is a position in a rule: a state, the iteration count of the enclosing
// counted loop, and a note.
type item struct {
	state int32
	count int32
	note  *note
}

// Loop counts that are far from the loop's bounds. countFree is at least the
// minimum, and countBelow is below the minimum.
const (
	countFree  = -1
	countBelow = -2
)

func (n *note) order() uint32 {
	if n == nil {
		return 0
	}
	return n.id
}

func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.count, b.count), cmp.Compare(a.note.order(), b.note.order()))
}

// frame is a sorted set of items that share the same stack below them.
type frame struct {
	id    uint32
	items []item
	plain bool    // whether no item has a note
	key   bool    // whether all items are inside a key and have its text
	next  []*move // next move by byte class, filled on demand
	open  *move   // result of closure; nil until it is first called
	bare  *frame  // the same frame without notes
	alone *stacks // the stack that contains only this frame
	own   *local
}

// move is the result of a step of a frame: positions in the same rule, calls of
// other rules, and possibly the end of the rule.
type move struct {
	frame *frame // positions that need a byte; nil if no position does
	calls []call
	end   bool    // whether the rule can end
	keys  []*note // keys with which the rule can end
}

// call is the call of a rule, with the frame to which it returns.
type call struct {
	rule int32
	back *frame
}

// stacks is a set of stacks. Stacks with the same top item share it, so each
// item occurs once per depth. In a state, the items of top frames need a byte.
// Items in lower frames are positions to which a rule returns.
type stacks struct {
	id    uint32
	tops  []top
	empty bool      // whether the empty stack is in the set
	next  []*stacks // next stacks by byte class, filled on demand
	pop   *stacks   // stacks that remain when the top frame ends, without notes
	mask  *bitset   // allowed tokens
	chain *stacks   // next entry with the same hash
}

type top struct {
	frame *frame
	under *stacks
}

// Budgets. Work is the number of examined or stored items, plus the number of
// visited trie nodes in units of walkUnit. It therefore also bounds the memory
// of one call.
const (
	maxItems  = 1 << 15  // maximum number of items in one set of stacks
	maxWork   = 1 << 23  // work limit of one call
	maxStacks = 1 << 17  // number of interned stacks after which the tables are emptied
	maxBytes  = 64 << 20 // bytes of masks and stacks after which the tables are emptied
	walkUnit  = 16
)

// machine runs the automaton. Frames and sets of stacks are interned, and results
// computed for them are cached in them.
type machine struct {
	*nfa
	toks    *Tokens
	class   [256]uint8
	rep     []byte   // one representative byte of each class
	start   []*frame // start of each rule during a walk for a mask
	live    []*frame // start of each rule during Accept, if it differs from start
	bottom  *stacks  // set with only the empty stack
	dead    *stacks  // empty set of stacks
	frames  map[uint64][]*frame
	sets    map[uint64]*stacks
	unions  map[[2]*stacks]*stacks
	notes   map[note]*note
	nextID  uint32
	inUse   int // number of interned sets and frames
	held    int // size of masks and stacks in bytes
	work    int
	over    bool // whether a budget was exceeded, so that results are invalid
	scratch scratch
	walk    []*stacks // scratch of the trie walk
	bits    Bitmask
	part    Bitmask
}

type scratch struct {
	first []item
	items []item
	calls []entry
	seen  map[item]struct{}
	moves []top // entries whose pops must still be processed
	done  map[top]struct{}
	out   []top
	empty bool
	wait  []entered
}

func newScratch() scratch {
	return scratch{seen: map[item]struct{}{}, done: map[top]struct{}{}}
}

// entered collects the return frames of all calls of one rule.
type entered struct {
	rule  int32
	tops  []top
	empty bool
}

func newMachine(n *nfa, toks *Tokens) *machine {
	m := &machine{
		nfa: n, toks: toks,
		frames: map[uint64][]*frame{}, sets: map[uint64]*stacks{}, notes: map[note]*note{}, nextID: 2,
		unions: map[[2]*stacks]*stacks{},
		bits:   toks.NewMask(), part: toks.NewMask(), walk: make([]*stacks, toks.deep+1),
	}
	m.scratch = newScratch()
	m.classify()
	m.bottom = &stacks{id: m.id(), empty: true}
	m.dead = &stacks{id: m.id()}
	m.start = make([]*frame, len(n.rules))
	m.live = make([]*frame, len(n.rules))
	for i, r := range n.rules {
		var walk, live *note
		if r.key {
			walk, live = fresh, m.text(nil, 0)
		}
		for _, name := range r.taken {
			live = m.with(live, m.word(name))
		}
		m.start[i] = m.frame([]item{{r.start, 0, walk}})
		m.live[i] = m.frame([]item{{r.start, 0, live}})
	}
	return m
}

// classify groups bytes that no edge distinguishes.
func (m *machine) classify() {
	var starts [257]bool
	for _, s := range m.states {
		for _, e := range s.edges {
			if e.kind == edgeByte {
				starts[e.lo], starts[int(e.hi)+1] = true, true
			}
		}
	}
	for c := range 256 {
		if c == 0 || starts[c] {
			m.rep = append(m.rep, byte(c))
		}
		m.class[c] = uint8(len(m.rep) - 1)
	}
}

func (m *machine) text(up *note, c byte) *note {
	n := note{up: up, char: c}
	if up != nil {
		n.size = up.size + 1
	}
	return m.intern(n)
}

// word returns the note for the whole text of a key.
func (m *machine) word(s string) *note {
	n := m.text(nil, 0)
	for i := range len(s) {
		n = m.text(n, s[i])
	}
	return n
}

// with returns a set of keys with one more key, which must not be in the set.
func (m *machine) with(set, key *note) *note {
	n := note{up: set, key: key, size: 1}
	if set != nil {
		n.size = set.size + 1
	}
	return m.intern(n)
}

func (m *machine) intern(n note) *note {
	if old := m.notes[n]; old != nil {
		return old
	}
	id := n
	n.id = m.id()
	kept := &n
	m.notes[id] = kept
	m.inUse++
	return kept
}

// has reports whether the set contains the key.
func has(set, key *note) bool {
	for ; set != nil; set = set.up {
		if sameText(set.key, key) {
			return true
		}
	}
	return false
}

// sameText compares the texts, not only the pointers, because a note may be
// older than the interned notes.
func sameText(a, b *note) bool {
	if a.size != b.size {
		return false
	}
	for ; a != b && a.size > 0; a, b = a.up, b.up {
		if a.char != b.char {
			return false
		}
	}
	return true
}

func (n *note) bytes() []byte {
	out := make([]byte, n.size)
	for ; n.size > 0; n = n.up {
		out[n.size-1] = n.char
	}
	return out
}

func (m *machine) id() uint32 {
	m.nextID++
	return m.nextID
}

const (
	hashSeed  = 14695981039346656037
	hashPrime = 1099511628211
)

func mix(h uint64, v uint32) uint64 { return (h ^ uint64(v)) * hashPrime }

// frame interns a set of items. The items must be sorted and unique.
func (m *machine) frame(items []item) *frame {
	h := uint64(hashSeed)
	for _, i := range items {
		h = mix(mix(mix(h, uint32(i.state)), uint32(i.count)), i.note.order())
	}
	for _, f := range m.frames[h] {
		if slices.Equal(f.items, items) {
			return f
		}
	}
	f := &frame{id: m.id(), items: slices.Clone(items), plain: true, key: true}
	for _, i := range items {
		f.plain = f.plain && i.note == nil
		f.key = f.key && i.note != nil && i.note != fresh && m.rules[m.states[i.state].rule].key
	}
	m.frames[h] = append(m.frames[h], f)
	m.inUse++
	m.keep(len(items))
	return f
}

// set interns a set of stacks. The tops must be sorted and must not share items.
func (m *machine) set(tops []top, empty bool) *stacks {
	if len(tops) == 0 {
		if empty {
			return m.bottom
		}
		return m.dead
	}
	h := uint64(hashSeed)
	if empty {
		h++
	}
	for _, t := range tops {
		h = mix(mix(h, t.frame.id), t.under.id)
	}
	first := m.sets[h]
	for s := first; s != nil; s = s.chain {
		if s.empty == empty && slices.Equal(s.tops, tops) {
			return s
		}
	}
	s := &stacks{id: m.id(), tops: slices.Clone(tops), empty: empty, chain: first}
	m.sets[h] = s
	m.inUse++
	m.keep(len(tops))
	return s
}

// merge interns the union of the given stacks. Equal items get one top with all the
// stacks below them, and items with the same stacks below them get one frame.
func (m *machine) merge(tops []top, empty bool) *stacks {
	if len(tops) <= 1 {
		return m.set(tops, empty)
	}
	if s := m.disjoint(tops, empty); s != nil {
		return s
	}
	type pair struct {
		item  item
		under *stacks
	}
	var pairs []pair
	for _, t := range tops {
		for _, i := range t.frame.items {
			pairs = append(pairs, pair{i, t.under})
		}
	}
	if m.spend(4 * len(pairs)); len(pairs) > maxItems || m.over {
		m.over = true
		return m.dead
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(compareItems(a.item, b.item), cmp.Compare(a.under.id, b.under.id))
	})
	one := pairs[:0]
	for i := 0; i < len(pairs); {
		j := i + 1
		for j < len(pairs) && pairs[j].item == pairs[i].item {
			j++
		}
		under := pairs[i].under
		for _, p := range pairs[i+1 : j] {
			under = m.union(under, p.under)
		}
		one = append(one, pair{pairs[i].item, under})
		i = j
	}
	slices.SortStableFunc(one, func(a, b pair) int { return cmp.Compare(a.under.id, b.under.id) })
	var out []top
	for i := 0; i < len(one); {
		var items []item
		j := i
		for ; j < len(one) && one[j].under == one[i].under; j++ {
			items = append(items, one[j].item)
		}
		out = append(out, top{m.frame(items), one[i].under})
		i = j
	}
	return m.set(out, empty)
}

// union merges two sets and caches the result, because ambiguous grammars merge the
// same sets repeatedly.
func (m *machine) union(a, b *stacks) *stacks {
	if a == b {
		return a
	}
	if a.id > b.id {
		a, b = b, a
	}
	key := [2]*stacks{a, b}
	if u := m.unions[key]; u != nil {
		return u
	}
	u := m.merge(slices.Concat(a.tops, b.tops), a.empty || b.empty)
	if !m.over {
		m.unions[key] = u
		m.inUse++
	}
	return u
}

// disjoint is a fast merge for the common case of few tops that share neither items
// nor the stacks below them. It returns nil in other cases.
func (m *machine) disjoint(tops []top, empty bool) *stacks {
	if len(tops) > 4 {
		return nil
	}
	for i, a := range tops {
		for _, b := range tops[:i] {
			if a.under == b.under || len(a.frame.items)*len(b.frame.items) > 256 {
				return nil
			}
			for _, x := range a.frame.items {
				if slices.Contains(b.frame.items, x) {
					return nil
				}
			}
		}
	}
	slices.SortFunc(tops, func(a, b top) int { return cmp.Compare(a.under.id, b.under.id) })
	return m.set(tops, empty)
}

func (m *machine) spend(n int) {
	if m.work += n + 1; m.work > maxWork {
		m.over = true
	}
}

// keep deducts n stored items, tops or pointers from the budgets.
func (m *machine) keep(n int) {
	m.held += 16 * n
	m.spend(n)
}

// forget empties the tables if they have become too large. States in use stay
// valid.
func (m *machine) forget() {
	if m.inUse < maxStacks && m.held < maxBytes {
		return
	}
	for _, fs := range m.frames {
		for _, f := range fs {
			f.own, f.next, f.alone = nil, nil, nil
		}
	}
	for _, s := range m.sets {
		for ; s != nil; s = s.chain {
			s.next, s.pop, s.mask = nil, nil, nil
		}
	}
	clear(m.frames)
	clear(m.sets)
	clear(m.notes)
	clear(m.unions)
	m.inUse, m.held = 0, 0
}
