package grammar

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// maxCompiled is the number of compiled grammars that are kept per vocabulary.
// The least recently used one is dropped first.
const maxCompiled = 8

// cache keeps compiled grammars by their content, so that requests with equal
// grammars share their cached masks.
type cache struct {
	mu   sync.Mutex
	list []cached // most recently used first
}

type cached struct {
	sum [sha256.Size]byte
	c   *Compiled
}

// find returns the compiled grammar with a hash, or nil.
func (k *cache) find(sum [sha256.Size]byte) *Compiled {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, e := range k.list {
		if e.sum == sum {
			copy(k.list[1:], k.list[:i])
			k.list[0] = e
			return e.c
		}
	}
	return nil
}

func (k *cache) add(sum [sha256.Size]byte, c *Compiled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) < maxCompiled {
		k.list = append(k.list, cached{})
	}
	copy(k.list[1:], k.list)
	k.list[0] = cached{sum, c}
}

// summer writes a grammar into a hash. It writes each part's length before the
// part.
type summer struct {
	h   hash.Hash
	buf []byte
}

// sum returns a hash of everything that determines what a grammar matches. Equal
// hashes mean equal grammars.
func (g *Grammar) sum() [sha256.Size]byte {
	s := summer{h: sha256.New()}
	s.ints(g.root, len(g.rules))
	for _, r := range g.rules {
		key := 0
		if r.key {
			key = 1
		}
		s.text(r.name)
		s.ints(key, len(r.taken))
		for _, t := range r.taken {
			s.text(t)
		}
		s.expr(r.body)
	}
	s.flush()
	return [sha256.Size]byte(s.h.Sum(nil))
}

func (s *summer) ints(list ...int) {
	for _, n := range list {
		s.buf = binary.AppendVarint(s.buf, int64(n))
	}
}

func (s *summer) text(t string) {
	s.ints(len(t))
	s.buf = append(s.buf, t...)
}

func (s *summer) expr(e *expr) {
	s.ints(int(e.op), e.min, e.max, e.id, len(e.set), len(e.subs))
	s.text(string(e.lit))
	for _, r := range e.set {
		s.ints(int(r.lo), int(r.hi))
	}
	for _, sub := range e.subs {
		s.expr(sub)
	}
	if a := e.auto; a != nil {
		s.ints(a.size, len(a.edges))
		for _, f := range a.final {
			if f {
				s.ints(1)
			} else {
				s.ints(0)
			}
		}
		for _, x := range a.edges {
			if x.on == nil {
				s.ints(x.from, x.to, 0)
				continue
			}
			s.ints(x.from, x.to, 1)
			s.expr(x.on)
		}
	}
	if len(s.buf) > 4096 {
		s.flush()
	}
}

func (s *summer) flush() {
	s.h.Write(s.buf)
	s.buf = s.buf[:0]
}
