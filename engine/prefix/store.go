package prefix

import (
	"container/list"
	"log/slog"
	"slices"
	"sync"
	"time"

	"godwit/engine/llm"
)

// overhead is the size of a record without its data, in memory and on disk.
const overhead = 512

// maxNodes is the largest number of pages and points in a store.
const maxNodes = 1 << 18

// Options of Open.
type Options struct {
	Dir    string // folder of the files; empty for memory only
	Disk   int64  // most bytes on disk; 0 disables the files
	Memory int64  // most bytes in memory
	// Space returns the bytes that may still be written in a folder, and the
	// size of its file system. nil means that there is always room.
	Space func(dir string) (free, size int64, err error)
	Log   *slog.Logger // nil: none
}

// Record is one part of a page, or a point, to store.
type Record struct {
	Key    Key // key of the page or point, from Next or PointKey
	Parent Key // key of the page before it, or the root
	Before int // number of pages before it
	Tokens []llm.Token
	Point  bool
	Part   int // index of the part in a page
	Data   []byte
}

// Store keeps records. It is safe for concurrent use.
type Store struct {
	o      Options
	log    *slog.Logger
	secret [32]byte

	mu       sync.Mutex
	nodes    map[Key]*node
	mem      tier
	held     tier // records on disk
	clock    int64
	dirty    int64 // bytes waiting to be written
	queue    []*blob
	erasures []erasure // records that the writer overwrites
	work     sync.Cond // the queue has changed, or the store is closing
	done     sync.Cond // the writer has nothing to do
	busy     bool      // the writer is writing
	ended    bool
	disk     *disk // nil without a folder
	ends     sync.WaitGroup
	gone     gone // pages that were dropped
	origins  origins
	owners   map[tag]*owner // owners with limits
}

// node is a page, a point or a root of the tree.
type node struct {
	key, parent Key
	before      int
	tokens      []llm.Token
	point       bool
	parts       []*blob // indexed by part; nil if missing
	points      []*node // points of this page
	kids        int     // number of pages and points with this node as parent
	used        int64   // clock of its last use
	owner       *owner  // nil if its owner has no limit
	in          [2]residence
}

// residence is the state of a node in one tier.
type residence struct {
	bytes int64
	kids  int // number of children that have bytes in the tier
	place *list.Element
	mine  *list.Element // place among the records of its owner
}

// blob is one part of a node, in memory, on disk, or both.
type blob struct {
	of    *node
	part  int
	size  int
	data  []byte // its bytes; nil if not in memory
	in    bool   // the part is in memory, even if it is empty
	dirty bool   // the part is in the writer's queue
	chunk *chunk // its chunk on disk; nil if not on disk
	at    int64
}

// The tiers.
const (
	memory = iota
	onDisk
)

// tier lists the records in memory or on disk, the most recently used first.
type tier struct {
	which int
	bytes int64
	most  int64
	order *list.List
}

// Open opens a store. If the folder cannot be used, it logs that and keeps
// everything in memory.
func Open(o Options) *Store {
	s := bare(o)
	s.secret = newSecret()
	if o.Dir != "" && o.Disk > 0 {
		if err := s.openDisk(); err != nil {
			s.log.Warn("prefixes not stored on disk", "folder", o.Dir, "err", err)
		}
	}
	s.ends.Add(1)
	go s.write()
	return s
}

// bare returns an empty store without a writer.
func bare(o Options) *Store {
	s := &Store{o: o, log: o.Log, nodes: map[Key]*node{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.work.L, s.done.L = &s.mu, &s.mu
	s.mem = tier{which: memory, most: o.Memory, order: list.New()}
	s.held = tier{which: onDisk, most: o.Disk, order: list.New()}
	return s
}

// SetMemory sets the limit of the bytes in memory. Records over the limit are
// dropped at once, except those that are being written to disk.
func (s *Store) SetMemory(most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mem.most = most
	s.trim(&s.mem, most)
}

// OnDisk reports whether records are kept on disk.
func (s *Store) OnDisk() bool { return s.disk != nil }

// Close writes everything that is queued and closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil
	}
	s.ended = true
	s.work.Broadcast()
	s.mu.Unlock()
	s.ends.Wait()
	if s.disk == nil {
		return nil
	}
	return s.disk.close()
}

// Sync waits until everything is written.
func (s *Store) Sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.queue) > 0 || len(s.erasures) > 0 || s.busy) && !s.ended {
		s.done.Wait()
	}
}

// tick returns the time of a use. Every call returns a different time.
func (s *Store) tick() int64 {
	s.clock = max(s.clock+1, time.Now().UnixMilli())
	return s.clock
}

// Has reports whether a part of a page, or a point, is stored.
func (s *Store) Has(key Key, part int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[key].blob(part) != nil
}

// Reaches reports whether any part of a page is stored.
func (s *Store) Reaches(key Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[key] != nil
}

// blob returns a part of a node, or nil if it is missing.
func (n *node) blob(part int) *blob {
	if n == nil || part >= len(n.parts) {
		return nil
	}
	return n.parts[part]
}

// Put stores a record and takes ownership of its data. It drops the record if it has no parent or
// there is no room.
func (s *Store) Put(r Record) {
	if r.Part < 0 || r.Part >= MaxParts || r.Point && r.Part != 0 || len(r.Tokens) > PageTokens || !r.Point && len(r.Tokens) != PageTokens {
		panic("prefix: a record that is neither a page nor a point")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.nodes[r.Key].blob(r.Part) != nil {
		return
	}
	size := int64(len(r.Data)) + overhead
	if !s.admit(s.ownerAt(r.Parent), memory, size, s.nodes[r.Parent], s.nodes[r.Key]) {
		return
	}
	if s.disk != nil {
		if s.dirty+size > max(s.mem.most, 64<<20) {
			return // the disk is slower than the incoming records
		}
	} else if !s.room(size) {
		return
	}
	for len(s.nodes) >= maxNodes {
		if !s.shrink() {
			return
		}
	}
	n := s.grow(&r)
	if n == nil {
		return
	}
	b := n.add(r.Part, len(r.Data))
	b.data, b.in = r.Data, true
	s.enter(&s.mem, n, size)
	n.used = s.tick()
	s.first(n)
	if n.point {
		s.thin(n)
	}
	if s.disk != nil {
		b.dirty = true
		s.dirty += size
		s.queue = append(s.queue, b)
		s.work.Signal()
	}
	s.trim(&s.mem, s.mem.most)
}

// shrink drops a record from disk, or from memory if none can be dropped from
// disk. Put calls it when there are too many nodes.
func (s *Store) shrink() bool {
	t := &s.held
	n := s.least(t)
	if n == nil {
		t = &s.mem
		n = s.least(t)
	}
	if n == nil {
		return false
	}
	s.drop(t, n)
	return true
}

// room reports whether a number of bytes fits in memory.
func (s *Store) room(size int64) bool {
	if size > s.mem.most {
		return false
	}
	s.trim(&s.mem, s.mem.most-size)
	return s.mem.bytes+size <= s.mem.most
}

// grow returns the node of a record and links it to its parent.
func (s *Store) grow(r *Record) *node {
	if n := s.nodes[r.Key]; n != nil {
		return n
	}
	parent := s.nodes[r.Parent]
	if parent == nil {
		if r.Before > 0 {
			return nil
		}
		parent = &node{key: r.Parent, owner: s.ownerAt(r.Parent)}
		s.nodes[r.Parent] = parent
	}
	n := &node{key: r.Key, parent: r.Parent, before: r.Before, tokens: slices.Clone(r.Tokens), point: r.Point, owner: parent.owner}
	s.nodes[r.Key] = n
	parent.kids++
	if n.point {
		parent.points = append(parent.points, n)
	}
	return n
}

// add returns a part of a node. It creates the part without data if it is
// missing.
func (n *node) add(part, size int) *blob {
	for len(n.parts) <= part {
		n.parts = append(n.parts, nil)
	}
	if n.parts[part] == nil {
		n.parts[part] = &blob{of: n, part: part, size: size}
	}
	return n.parts[part]
}

// enter adds bytes of a node to a tier.
func (s *Store) enter(t *tier, n *node, size int64) {
	in := &n.in[t.which]
	if in.bytes == 0 {
		in.place = t.order.PushFront(n)
		if p := s.nodes[n.parent]; p != nil {
			p.in[t.which].kids++
		}
	}
	in.bytes += size
	t.bytes += size
	if o := n.owner; o != nil {
		if in.mine == nil {
			in.mine = o.tiers[t.which].order.PushFront(n)
		}
		o.tiers[t.which].bytes += size
	}
}

// leave subtracts bytes of a node from a tier.
func (s *Store) leave(t *tier, n *node, size int64) {
	in := &n.in[t.which]
	in.bytes -= size
	t.bytes -= size
	if o := n.owner; o != nil {
		if o.tiers[t.which].bytes -= size; in.bytes == 0 {
			o.tiers[t.which].order.Remove(in.mine)
			in.mine = nil
		}
	}
	if in.bytes == 0 {
		t.order.Remove(in.place)
		in.place = nil
		if p := s.nodes[n.parent]; p != nil {
			p.in[t.which].kids--
		}
	}
}

// first moves a node to the front of the tiers.
func (s *Store) first(n *node) {
	for i, t := range []*tier{&s.mem, &s.held} {
		if p := n.in[i].place; p != nil {
			t.order.MoveToFront(p)
		}
		if p := n.in[i].mine; p != nil {
			n.owner.tiers[i].order.MoveToFront(p)
		}
	}
}

// touch marks a node and its ancestors as the most recently used. Nodes nearer to the root get a
// later time, so that chains are dropped from their ends.
func (s *Store) touch(n *node) {
	for n != nil {
		n.used = s.tick()
		s.first(n)
		n = s.nodes[n.parent]
	}
}

// sample is the number of least recently used records that least compares.
const sample = 24

// trim drops records of a tier, or of an owner in a tier, until it holds at most most
// bytes.
func (s *Store) trim(t *tier, most int64) {
	for t.bytes > most {
		n := s.least(t)
		if n == nil {
			return
		}
		s.drop(s.tier(t.which), n)
	}
}

// least returns the least valuable record of a tier, among the least recently used ones
// without children.
func (s *Store) least(t *tier) *node {
	var worst *node
	var value float64
	seen := 0
	for e := t.order.Back(); e != nil && seen < sample; e = e.Prev() {
		n := e.Value.(*node)
		if n.in[t.which].kids > 0 || t.which == memory && n.writing() {
			continue
		}
		seen++
		v := n.cost() / float64(n.in[t.which].bytes) / float64(s.clock-n.used+1)
		if worst == nil || v < value {
			worst, value = n, v
		}
	}
	return worst
}

// writing reports whether a part of the node waits to be written.
func (n *node) writing() bool {
	return slices.ContainsFunc(n.parts, func(b *blob) bool { return b != nil && b.dirty })
}

// cost returns the cost of computing a record again. The unit is one row at the
// beginning of a text.
func (n *node) cost() float64 {
	return PageTokens * (1 + float64(n.before*PageTokens)/4096)
}

// drop removes a node from a tier. If the other tier has nothing of it, the node is also removed
// from the tree.
func (s *Store) drop(t *tier, n *node) {
	for _, b := range n.parts {
		if b == nil {
			continue
		}
		size := int64(b.size) + overhead
		switch {
		case t.which == memory && b.in:
			b.data, b.in = nil, false
			s.leave(t, n, size)
		case t.which == onDisk && b.chunk != nil:
			b.chunk.live -= b.length()
			b.chunk = nil
			s.leave(t, n, size)
		}
	}
	s.prune(n)
}

// Forget drops pages and their points from memory and disk.
func (s *Store) Forget(pages []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Backward(pages) {
		n := s.nodes[key]
		if n == nil {
			continue
		}
		for _, x := range append(slices.Clone(n.points), n) {
			s.drop(&s.mem, x)
			s.drop(&s.held, x)
		}
	}
}

// prune removes the parts that are in no tier, and the node if it has no parts and no children.
func (s *Store) prune(n *node) {
	for i, b := range n.parts {
		if b != nil && !b.in && b.chunk == nil {
			n.parts[i] = nil
		}
	}
	if n != nil && !n.point && s.nodes[n.key] == n && n.kids == 0 && !slices.ContainsFunc(n.parts, func(b *blob) bool { return b != nil }) {
		s.gone.add(n.key)
	}
	for s.nodes[n.key] == n && n.kids == 0 && !slices.ContainsFunc(n.parts, func(b *blob) bool { return b != nil }) {
		delete(s.nodes, n.key) // the loop condition ensures that a node is deleted once, because each deletion decrements its parent's count
		p := s.nodes[n.parent]
		if p == nil {
			return
		}
		p.kids--
		if n.point {
			p.points = slices.DeleteFunc(p.points, func(q *node) bool { return q == n })
		}
		n = p
	}
}

// lose removes a part that turned out to be damaged.
func (s *Store) lose(b *blob) {
	if b.chunk == nil {
		return
	}
	b.chunk.live -= b.length()
	b.chunk = nil
	s.leave(&s.held, b.of, int64(b.size)+overhead)
	s.prune(b.of)
}
