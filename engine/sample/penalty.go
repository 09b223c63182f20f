package sample

import "godwit/engine/llm"

// counts is a multiset of tokens. It is a hash table with linear probing that
// allocates only if the number of distinct tokens grows.
type counts struct {
	slots []slot // length is a power of two; n == 0: free
	used  int
}

type slot struct {
	tok llm.Token
	n   int32
}

func newCounts(distinct int) counts {
	size := 16
	for size < 2*distinct {
		size *= 2
	}
	return counts{slots: make([]slot, size)}
}

func (c *counts) home(t llm.Token) int {
	return int(uint32(t)*0x9e3779b1>>7) & (len(c.slots) - 1)
}

func (c *counts) find(t llm.Token) int {
	i := c.home(t)
	for c.slots[i].n != 0 && c.slots[i].tok != t {
		i = (i + 1) & (len(c.slots) - 1)
	}
	return i
}

func (c *counts) add(t llm.Token) {
	if i := c.find(t); c.slots[i].n != 0 {
		c.slots[i].n++
		return
	}
	c.put(t, 1)
}

// put sets the count of a token that is not in the table yet.
func (c *counts) put(t llm.Token, n int32) {
	if c.used*2 >= len(c.slots) {
		c.grow()
	}
	c.slots[c.find(t)] = slot{t, n}
	c.used++
}

func (c *counts) reset() {
	clear(c.slots)
	c.used = 0
}

func (c *counts) grow() {
	old := c.slots
	c.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.n != 0 {
			c.slots[c.find(s.tok)] = s
		}
	}
}

// remove removes one t. Later entries move into a slot that becomes free, so
// that no probe ends too early.
func (c *counts) remove(t llm.Token) {
	i := c.find(t)
	if c.slots[i].n == 0 {
		return
	}
	if c.slots[i].n--; c.slots[i].n != 0 {
		return
	}
	c.used--
	size := len(c.slots)
	for j := (i + 1) & (size - 1); c.slots[j].n != 0; j = (j + 1) & (size - 1) {
		if home := c.home(c.slots[j].tok); (j-home)&(size-1) >= (j-i)&(size-1) {
			c.slots[i], c.slots[j] = c.slots[j], slot{}
			i = j
		}
	}
}

// change is a changed logit with its original value.
type change struct {
	tok   llm.Token
	logit float32
}

// alter changes a logit and records its old value.
func (s *Sampler) alter(logits []float32, t llm.Token, x float32) {
	s.changes = append(s.changes, change{t, logits[t]})
	logits[t] = x
}

// adjust applies bias, penalties and DRY to the logits in place.
func (s *Sampler) adjust(logits []float32) {
	for _, b := range s.bias {
		s.alter(logits, b.tok, logits[b.tok]+b.logit)
	}
	if s.penalised {
		rep := float32(s.p.RepeatPenalty)
		freq, pres := float32(s.p.FrequencyPenalty), float32(s.p.PresencePenalty)
		for _, e := range s.seen.slots {
			if e.n == 0 {
				continue
			}
			x := logits[e.tok]
			if x > 0 {
				x /= rep
			} else {
				x *= rep
			}
			s.alter(logits, e.tok, x-float32(float32(e.n)*freq)-pres)
		}
	}
	s.dry(logits)
}

// restore undoes adjust, starting with the newest change.
func (s *Sampler) restore(logits []float32) {
	for i := len(s.changes) - 1; i >= 0; i-- {
		logits[s.changes[i].tok] = s.changes[i].logit
	}
	s.changes = s.changes[:0]
}
