package sched

import (
	"fmt"
	"sync"

	"godwit/engine/llm"
)

// Drafter proposes the next tokens of a job. It is called on the scheduler's goroutine.
type Drafter interface {
	// Draft appends at most n tokens that may follow tokens to dst.
	Draft(dst, tokens []llm.Token, n int) []llm.Token
	// Verified reports how many tokens of the last draft the job has chosen.
	Verified(accepted int)
}

// SlowDrafter is a Drafter that waits for a model. The drafts of several jobs are computed
// at the same time, each on its own goroutine.
type SlowDrafter interface {
	Drafter
	Slow()
}

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

// propose gets draft tokens for every generating job from its drafter, at most n each.
func (s *Sched) propose(n int) {
	slow := 0
	for i := range s.slots {
		if !s.decodes(i) {
			continue
		}
		t := s.slots[i].task
		t.draft, t.drafts = t.draft[:0], s.draftable(i, n)
		if t.drafts <= 0 {
			continue
		}
		if _, ok := t.Drafter.(SlowDrafter); ok {
			slow++
		} else {
			t.propose(s.o.Vocab)
		}
	}
	if slow > 0 {
		s.proposeSlow()
	}
}

// proposeSlow gets the drafts of the slow drafters, all at the same time.
func (s *Sched) proposeSlow() {
	var all sync.WaitGroup
	for i := range s.slots {
		if !s.decodes(i) {
			continue
		}
		t := s.slots[i].task
		if _, ok := t.Drafter.(SlowDrafter); ok && t.drafts > 0 {
			all.Go(func() { t.propose(s.o.Vocab) })
		}
	}
	all.Wait()
}

// draftable limits the n draft tokens of a job. They need no cells beyond the page of the
// job's next row.
func (s *Sched) draftable(i, n int) int {
	t := s.slots[i].task
	if t.Drafter == nil || n <= 0 || t.OneByOne || len(t.Tiles) > 0 {
		return 0
	}
	return min(n, s.cache.Draftable(s.slots[i].seq)-1, s.o.Context-1-len(t.tokens))
}

// propose gets at most t.drafts tokens from the job's drafter. Tokens outside the
// vocabulary end the draft.
func (t *task) propose(vocab int) {
	t.draft = t.Drafter.Draft(t.draft, t.tokens, t.drafts)
	for k, tok := range t.draft {
		if k == t.drafts || tok < 0 || int(tok) >= vocab {
			t.draft = t.draft[:k]
			break
		}
	}
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
