package grammar

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit/engine/llm"
)

// Compiled is a grammar for one vocabulary. All its states share their cached
// masks. It is safe for concurrent use.
type Compiled struct {
	mu    sync.Mutex
	m     *machine
	toks  *Tokens
	first *stacks
}

// Compile prepares a grammar for the tokens of a vocabulary. It fails on left
// recursion, on a grammar that matches no text, and on a grammar that is too large.
//
// Equal grammars share one Compiled while it is among the most recently used of
// toks.
func Compile(g *Grammar, toks *Tokens) (*Compiled, error) {
	sum := g.sum()
	if c := toks.cache.find(sum); c != nil {
		return c, nil
	}
	n, err := buildNFA(g, toks)
	if err != nil {
		return nil, err
	}
	m := newMachine(n, toks)
	m.begin()
	m.scratch.empty = n.empty
	m.scratch.wait = append(m.scratch.wait, entered{rule: n.root, empty: true})
	first := m.finish(true)
	if m.over {
		return nil, fmt.Errorf("%w: at its start", ErrLimit)
	}
	c := &Compiled{m: m, toks: toks, first: first}
	toks.cache.add(sum, c)
	return c, nil
}

// State is the position of a text in a grammar. It belongs to one sequence.
type State struct {
	c     *Compiled
	at    *stacks
	ended bool
}

// Start returns the state before the first byte.
func (c *Compiled) Start() *State { return &State{c: c, at: c.first} }

// Clone returns an independent copy.
func (s *State) Clone() *State {
	t := *s
	return &t
}

// Set makes s a copy of t.
func (s *State) Set(t *State) { *s = *t }

// Done reports whether the text may end here, so that end-of-generation tokens are
// allowed.
func (s *State) Done() bool { return s.at.empty }

// Complete reports whether the text must end here.
func (s *State) Complete() bool { return s.at.empty && len(s.at.tops) == 0 }

// Mask sets dst to the tokens that may come next. dst has the size of
// [Tokens.NewMask]. Mask fails with ErrStuck if no token is allowed, and with
// ErrLimit if the grammar is so ambiguous that computing the mask takes too much
// work.
func (s *State) Mask(dst Bitmask) error {
	c := s.c
	if len(dst) != (c.toks.size+63)/64 {
		return fmt.Errorf("%w: mask of %d words for %d tokens", ErrLimit, len(dst), c.toks.size)
	}
	clear(dst)
	if !s.ended {
		if err := s.fill(dst); err != nil {
			return err
		}
	}
	if s.at.empty {
		for _, t := range c.toks.eog {
			dst.set(t)
		}
	}
	return nil
}

func (s *State) fill(dst Bitmask) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.work = 0
	mask := c.m.allowed(s.at)
	if err := c.settle(); err != nil {
		return err
	}
	mask.or(dst)
	if len(mask.list)+len(mask.all) == 0 && !s.at.empty {
		return fmt.Errorf("%w: none of %d", ErrStuck, c.toks.size)
	}
	return nil
}

// settle ends a call. It limits the size of the tables, and returns an error if
// a budget was exceeded.
func (c *Compiled) settle() error {
	over := c.m.over
	c.m.forget()
	c.m.over = false
	if over {
		c.m.scratch = newScratch() // the old scratch has grown too large
		return fmt.Errorf("%w: more than %d steps for one token", ErrLimit, maxWork)
	}
	return nil
}

// Accept advances the state by a token. A token that Mask allows is never rejected.
// On an error the state is unchanged.
func (s *State) Accept(t llm.Token) error {
	c := s.c
	if t < 0 || int(t) >= c.toks.size || s.ended {
		return fmt.Errorf("%w: %d", ErrRejected, t)
	}
	var err error
	if text := c.toks.text[t]; text != nil {
		if err = s.step(text, t); !errors.Is(err, ErrRejected) {
			return err
		}
	}
	if s.at.empty && slices.Contains(c.toks.eog, t) {
		s.ended = true
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: %d", ErrRejected, t)
	}
	return err
}

// AcceptText advances the state by text that has no token, such as a prefix in the
// prompt. On an error the state is unchanged.
func (s *State) AcceptText(text []byte) error { return s.step(text, -1) }

func (s *State) step(text []byte, t llm.Token) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.work = 0
	at := s.at
	for _, b := range text {
		if c.m.keys {
			at = c.m.advance(at, b, true)
		} else {
			at = c.m.next(at, b)
		}
		if at == c.m.dead || c.m.over {
			break
		}
	}
	dead := at == c.m.dead
	if err := c.settle(); err != nil {
		return err
	}
	if dead {
		return fmt.Errorf("%w: token %d, %.40q", ErrRejected, t, text)
	}
	s.at = at
	return nil
}
