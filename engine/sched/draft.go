package sched

import (
	"fmt"

	"godwit/engine/llm"
)

// maxVerified is the largest number of rows of generating jobs in a step with drafts. GPU backends
// run up to that many with their kernels for single rows.
const maxVerified = 16

// drafts returns how many tokens each generating job may propose for the next
// step.
func (s *Sched) drafts() int {
	n := 0
	for i := range s.slots {
		if s.decodes(i) {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return min(maxVerified, s.o.Rows, s.o.Outputs)/n - 1
}

// propose gets at most n draft tokens from a job's drafter and returns how many it got. They need
// no cells beyond the page of the job's next row.
func (s *Sched) propose(i, n int) int {
	t := s.slots[i].task
	t.draft = t.draft[:0]
	if t.Drafter == nil || n <= 0 || t.OneByOne || len(t.Tiles) > 0 {
		return 0
	}
	n = min(n, s.cache.Draftable(s.slots[i].seq)-1, s.o.Context-1-len(t.tokens))
	if n <= 0 {
		return 0
	}
	t.draft = t.Drafter.Draft(t.draft, t.tokens, n)
	for k, tok := range t.draft {
		if k == n || tok < 0 || int(tok) >= s.o.Vocab {
			t.draft = t.draft[:k]
			break
		}
	}
	return len(t.draft)
}

// token returns the token at a position, which may be a draft token.
func (t *task) token(pos int) llm.Token {
	if n := len(t.tokens); pos >= n {
		return t.draft[pos-n]
	}
	return t.tokens[pos]
}

// sound returns how many of n rows, starting at first, come before the first
// row that is not finite.
func sound(strays []int, first, n int) int {
	for _, r := range strays {
		if r >= first {
			n = min(n, r-first)
		}
	}
	return n
}

// verified continues a job with the token that it chose from row r of its step. It reports whether
// the choice equals the draft token of the next row, so that the next row is valid.
func (s *Sched) verified(i, r int, p pick) bool {
	sl := &s.slots[i]
	t, n := sl.task, sl.drafted
	if r == 0 {
		t.stats.Drafted += n
	}
	agrees := r < n && p.err == nil && p.more && p.token == t.draft[r]
	if !agrees && n > 0 {
		t.Drafter.Verified(r)
		s.retract(i)
		sl.drafted = 0
	}
	s.chosen(i, p.token, p.more, p.err)
	if agrees {
		t.stats.Accepted++
		sl.tokens = append(sl.tokens, p.token)
	}
	return agrees
}

// retract removes the rows of draft tokens that were not accepted.
func (s *Sched) retract(i int) {
	sl := &s.slots[i]
	if n := len(sl.tokens); sl.drafted > 0 && s.cache.Len(sl.seq) > n {
		if got, err := s.cache.Truncate(sl.seq, n); err != nil || got != n {
			panic(fmt.Sprintf("sched: sequence %d with %d drafted tokens was cut to %d, want %d: %v", sl.seq, sl.drafted, got, n, err))
		}
	}
	sl.drafted = 0
}
