package prefix

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"strings"
)

// tag identifies an owner. It is the end of the keys of the owner's roots.
type tag [8]byte

// owner is a client whose texts have a limit of their own in each tier.
type owner struct{ tiers [2]tier }

// RootOf returns the root key of the origin's texts with a salt. The part of the salt
// before its first slash names the owner of the texts; see SetLimits.
func (s *Store) RootOf(o Origin, salt string) Key {
	k := s.Root([]byte(o.ID), []byte(salt))
	if name, _, ok := strings.Cut(salt, "/"); ok && name != "" {
		t := s.tag(name)
		copy(k[len(k)-len(t):], t[:])
	}
	return k
}

func (s *Store) tag(name string) tag {
	k := keyed(s.secret[:], ownerTag, []byte(name))
	return tag(k[:len(tag{})])
}

// SetLimits limits the bytes of owners, by name, in memory and the same number on disk.
// Of an owner over the limit, the least valuable records are dropped first. Owners
// without a limit share what the tiers have.
func (s *Store) SetLimits(most map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners = map[tag]*owner{}
	for name, n := range most {
		o := &owner{}
		for i := range o.tiers {
			o.tiers[i] = tier{which: i, most: n, order: list.New()}
		}
		s.owners[s.tag(name)] = o
	}
	s.assign()
	for _, o := range s.owners {
		for i := range o.tiers {
			s.trim(&o.tiers[i], o.tiers[i].most)
		}
	}
}

// assign gives every node its owner.
func (s *Store) assign() {
	all := slices.Collect(maps.Values(s.nodes))
	slices.SortFunc(all, func(a, b *node) int { // parents first
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.before, b.before))
	})
	for _, n := range all {
		if n.rank() == 0 {
			n.owner = s.ownerAt(n.key)
		} else {
			n.owner = s.ownerAt(n.parent)
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return cmp.Compare(a.used, b.used) })
	for _, n := range all {
		for i := range n.in {
			in := &n.in[i]
			if in.mine = nil; n.owner != nil && in.bytes > 0 {
				in.mine = n.owner.tiers[i].order.PushFront(n)
				n.owner.tiers[i].bytes += in.bytes
			}
		}
	}
}

// rank orders nodes: roots, pages, points.
func (n *node) rank() int {
	switch {
	case n.point:
		return 2
	case n.tokens == nil:
		return 0
	}
	return 1
}

// ownerAt returns the owner of a page, or of a root that need not exist.
func (s *Store) ownerAt(key Key) *owner {
	if n := s.nodes[key]; n != nil && n.tokens != nil {
		return n.owner
	}
	return s.owners[tag(key[len(key)-len(tag{}):])]
}

// admit makes room for bytes of an owner in a tier, without dropping some nodes. It
// reports whether they fit. nil has no limit.
func (s *Store) admit(o *owner, which int, size int64, keep ...*node) bool {
	if o == nil {
		return true
	}
	for _, n := range keep {
		if n != nil {
			n.in[which].kids++ // least skips nodes with children
		}
	}
	t := &o.tiers[which]
	s.trim(t, t.most-size)
	for _, n := range keep {
		if n != nil {
			n.in[which].kids--
		}
	}
	return t.bytes+size <= t.most
}

// tier returns the tier with all records.
func (s *Store) tier(which int) *tier {
	if which == memory {
		return &s.mem
	}
	return &s.held
}
