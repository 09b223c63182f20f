package sched_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/prefix"
	"godwit/engine/sched"
)

// memoryStore is a store without a folder.
func memoryStore(t testing.TB, bytes int64) *prefix.Store {
	t.Helper()
	s := prefix.Open(prefix.Options{Memory: bytes})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// talk is a conversation that grows turn by turn.
type talk struct {
	tokens []llm.Token
	salt   string
	fresh  int // tokens of the last turn that no earlier turn had
}

// say adds n tokens, gets m tokens of answer, checks them, and returns how many
// rows of the prompt were computed.
func (c *talk) say(t testing.TB, s *sched.Sched, seed uint64, n, m, window int) (computed int) {
	t.Helper()
	c.tokens = append(c.tokens, text(seed, n)...)
	c.fresh = n
	r := run(t, s, sched.Job{Prompt: c.tokens, Slot: -1, Salt: c.salt}, m)
	if r.err != nil {
		t.Fatal(r.err)
	}
	if !slices.Equal(r.tokens, want(c.tokens, m, window)) {
		t.Fatalf("another answer than a cold run's, %d of %d tokens from the cache", r.stats.Cached, len(c.tokens))
	}
	c.tokens = append(c.tokens, r.tokens...)
	return r.stats.Prompt - r.stats.Cached
}

// Clients that alternate read only their new tokens and parts of two pages
// again, even if there are more clients than slots.
func TestAlternate(t *testing.T) {
	for _, window := range []int{0, 100} {
		for _, slots := range []int{1, 2} {
			s, _ := newTiny(t, tiny{cells: 4096, seqs: slots, context: 4096, rows: 128, window: window, kept: memoryStore(t, 1<<30)})
			talks := make([]talk, 3)
			for turn := range 5 {
				for i := range talks {
					first := 300 // a first prompt that no other client has
					if turn > 0 {
						first = 40
					}
					n := talks[i].say(t, s, uint64(100*turn+i), first, 30, window)
					if n > 128+first {
						t.Errorf("window %d, %d slots, client %d, turn %d: %d rows for %d new tokens", window, slots, i, turn, n, first)
					}
				}
			}
		}
	}
}

// Eight agents use one long prompt, two at a time.
func TestAgents(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 8192, seqs: 2, context: 4096, rows: 256, kept: memoryStore(t, 1<<30)})
	shared := text(1, 2000)
	agents := make([]talk, 8)
	for i := range agents {
		agents[i].tokens = slices.Clone(shared)
	}
	rows := agents[0].say(t, s, 10, 50, 20, 0)
	for turn := range 3 {
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := range agents {
			if turn == 0 && i == 0 {
				continue
			}
			all.Go(func() {
				n := agents[i].say(t, s, uint64(100*turn+i+11), 50, 20, 0)
				mu.Lock()
				defer mu.Unlock()
				rows += n
				if n > 128+50 {
					t.Errorf("agent %d, turn %d: %d rows for 50 new tokens", i, turn, n)
				}
			})
		}
		all.Wait()
	}
	t.Log(rows, "rows")
}

// Only jobs with the same salt share anything, in slots and in the store.
func TestSalts(t *testing.T) {
	kept := memoryStore(t, 1<<30)
	for range 2 { // the second time from the store
		s, _ := newTiny(t, tiny{cells: 4096, seqs: 4, context: 2048, rows: 128, kept: kept})
		prompt := text(5, 400)
		cached := func(salt string) int {
			r := run(t, s, sched.Job{Prompt: prompt, Slot: -1, Salt: salt}, 3)
			if r.err != nil || !slices.Equal(r.tokens, want(prompt, 3, 0)) {
				t.Fatal(r.tokens, r.err)
			}
			return r.stats.Cached
		}
		first := cached("a")
		if n := cached("b"); n != first {
			t.Errorf("another salt takes %d tokens, the first of its own %d", n, first)
		}
		if n := cached("a"); n != 384 {
			t.Errorf("the same salt takes %d", n)
		}
		if n := cached(""); n != first {
			t.Errorf("no salt takes %d", n)
		}
		s.Close()
	}
}

// A private job reuses what other jobs left and leaves nothing.
func TestPrivate(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 4096, seqs: 2, context: 2048, rows: 128, kept: memoryStore(t, 1<<30)})
	prompt := text(5, 400)
	r := run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 3)
	longer := slices.Concat(prompt, text(6, 300))
	for range 2 {
		r = run(t, s, sched.Job{Prompt: longer, Slot: -1, Private: true}, 3)
		if r.err != nil || r.stats.Cached != 384 || !slices.Equal(r.tokens, want(longer, 3, 0)) {
			t.Fatal(r.stats.Cached, r.err)
		}
	}
	slots, err := s.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range slots {
		if x.Tokens > 410 {
			t.Errorf("slot %d holds %d tokens", x.Slot, x.Tokens)
		}
	}
	// While it runs, no other job reuses anything of it either.
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var once sync.Once
	done, err := begin(ctx, s, sched.Job{Prompt: longer, Slot: -1, Private: true}, 1000, func() { once.Do(func() { close(begun) }) })
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if r = run(t, s, sched.Job{Prompt: longer, Slot: -1}, 3); r.stats.Cached != 384 {
		t.Errorf("%d tokens are taken from a private job", r.stats.Cached)
	}
	cancel()
	<-done
}

// A job with Fresh computes everything again, and its results are kept.
func TestFreshKeeps(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 2048, seqs: 1, context: 2048, rows: 128, kept: memoryStore(t, 1<<30)})
	prompt := text(5, 400)
	for range 2 {
		if r := run(t, s, sched.Job{Prompt: prompt, Slot: -1, Fresh: true}, 3); r.stats.Cached != 0 {
			t.Fatal(r.stats.Cached)
		}
		run(t, s, sched.Job{Prompt: text(6, 400), Slot: -1, Fresh: true}, 3)
	}
	if r := run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 3); r.stats.Cached != 384 || r.stats.Stored != 384 || r.stats.FromDisk != 0 {
		t.Errorf("%+v", r.stats)
	}
}

// A scheduler that is closed leaves its prefixes on disk, even after a context
// shift. A small store drops the least recently used ones.
func TestKeptOnDisk(t *testing.T) {
	dir := t.TempDir()
	prompt := text(5, 400)
	for k := range 3 {
		store := prefix.Open(prefix.Options{Dir: dir, Disk: 1 << 30})
		s, _ := newTiny(t, tiny{cells: 512, seqs: 1, context: 512, rows: 128, kept: store, shift: true})
		r := run(t, s, sched.Job{Prompt: prompt, Slot: -1, Keep: -1}, 300)
		if r.err != nil || k > 0 && (r.stats.Cached != 384 || r.stats.FromDisk != 384) {
			t.Errorf("start %d: %+v, %v", k, r.stats, r.err)
		}
		s.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A store that is too small for everything only causes some text to be read
// again.
func TestSmallStore(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 1024, seqs: 1, context: 1024, rows: 128, kept: memoryStore(t, 3<<20)})
	talks := make([]talk, 6)
	for turn := range 4 {
		for i := range talks {
			talks[i].say(t, s, uint64(100*turn+i), 100, 10, 0)
		}
	}
}

// Random concurrent requests of a few texts with common beginnings get the
// answers of a cold run, whatever is in the slots and the store.
func TestKeptAtRandom(t *testing.T) {
	for seed := range uint64(3) {
		store := prefix.Open(prefix.Options{Dir: t.TempDir(), Disk: 1 << 30, Memory: 2 << 20})
		s, _ := newTiny(t, tiny{cells: 2048, seqs: 3, context: 1024, rows: 96, window: []int{0, 70, 200}[seed], seed: seed, kept: store})
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				r := text(seed*100+uint64(i), 1000)
				for k := range 25 {
					tokens := text(uint64(r[k])%3, 100+int(r[100+k]))
					tokens = append(tokens[:50+int(r[200+k])%(len(tokens)-50)], text(uint64(r[300+k])%4, int(r[400+k])*4)...)
					n := 1 + int(r[500+k])
					got := run(t, s, sched.Job{Prompt: tokens, Slot: -1, Salt: []string{"", "x"}[int(r[600+k])%2], Private: r[700+k]%7 == 0}, n)
					if got.err != nil || !slices.Equal(got.tokens, want(tokens, n, []int{0, 70, 200}[seed])) {
						t.Errorf("%d tokens, %d from the cache, %d from the store: another answer, %v", len(tokens), got.stats.Cached, got.stats.Stored, got.err)
					}
				}
			})
		}
		all.Wait()
		s.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// With a full store a job puts one piece per page, and does not try the whole
// text again and again.
func TestFullStore(t *testing.T) {
	for _, window := range []int{0, 100} {
		s, f := newTiny(t, tiny{cells: 8192, seqs: 1, context: 8192, rows: 512, window: window, kept: memoryStore(t, 100_000)})
		var c talk
		c.say(t, s, 1, 1500, 400, window)
		pages := int64(len(c.tokens)/kv.PageCells + 1)
		rows := int64(2 * 2 * kv.PageCells) // two layers, keys and values
		if n := f.reads.Load(); n > 3*pages*rows {
			t.Errorf("window %d: %d rows copied for %d pages of %d", window, n, pages, rows)
		}
	}
}

// An erased text leaves neither a slot nor the store. Another text with the same beginning
// keeps its pages.
func TestEraseText(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 4096, seqs: 4, context: 2048, rows: 128, kept: memoryStore(t, 1<<30)})
	prompt := text(5, 192)
	a, b := slices.Concat(prompt, text(6, 200)), slices.Concat(prompt, text(7, 200))
	first := run(t, s, sched.Job{Prompt: a, Slot: -1}, 3)
	other := run(t, s, sched.Job{Prompt: b, Slot: -1}, 3)
	if first.stats.TextKey == other.stats.TextKey {
		t.Fatal("two texts have the same key")
	}
	if err := s.EraseText(t.Context(), first.stats.TextKey); err != nil {
		t.Fatal(err)
	}
	if r := run(t, s, sched.Job{Prompt: b, Slot: -1}, 3); r.stats.Cached != 384 {
		t.Errorf("%d tokens of the other text are left", r.stats.Cached)
	}
	if r := run(t, s, sched.Job{Prompt: a, Slot: -1}, 3); r.stats.Cached != 192 || !slices.Equal(r.tokens, want(a, 3, 0)) {
		t.Errorf("%d tokens of the erased text are left, answer %v", r.stats.Cached, r.tokens)
	}
	if r := run(t, s, sched.Job{Prompt: a, Slot: -1, Private: true}, 3); r.stats.TextKey != (prefix.Key{}) {
		t.Error("a private text has a key")
	}
}
