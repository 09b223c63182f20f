package engine_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/prefix"
	"godwit/engine/sched"
)

// question is a prompt that a crowd sends, with the answer of a cold run.
type question struct {
	prompt []llm.Token
	rows   []uint64 // hashes of the logits, by token of the answer
	answer []llm.Token
}

// hashRow returns a hash of the bits of a row of logits.
func hashRow(row []float32) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range row {
		h = (h ^ uint64(math.Float32bits(v))) * 1099511628211
	}
	return h
}

// greedy runs a prompt until its answer has n tokens. It returns the hashes of the
// logits and the answer, or the part that was computed before ctx ended.
func greedy(ctx context.Context, e *engine.Engine, j sched.Job, n int) (rows []uint64, answer []llm.Token, st sched.Stats, err error) {
	done := make(chan error, 1)
	j.Keep = -1
	j.Next = func(row []float32) (llm.Token, bool, error) {
		best := 0
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		rows, answer = append(rows, hashRow(row)), append(answer, llm.Token(best))
		return llm.Token(best), len(rows) < n, nil
	}
	j.Done = func(_ sched.Finish, s sched.Stats, err error) { st = s; done <- err }
	if err = e.Submit(ctx, j); err == nil {
		err = <-done
	}
	return rows, answer, st, err
}

// crowd is a set of clients that use one engine at the same time.
type crowd struct {
	rng       *rand.Rand
	cold      *engine.Engine
	warm      *keeper
	slots     int
	vocab     int
	questions []question
	used      int // prompt tokens taken from the cache
	moved     int // number of slots saved and restored
	mu        sync.Mutex
}

// text returns n random tokens.
func (c *crowd) text(n int) (list []llm.Token) {
	for range n {
		list = append(list, llm.Token(c.rng.IntN(c.vocab)))
	}
	return list
}

// add makes a question and computes its cold answer.
func (c *crowd) add(t *testing.T, prompt []llm.Token) question {
	q := question{prompt: prompt}
	var err error
	q.rows, q.answer, _, err = greedy(t.Context(), c.cold, sched.Job{Prompt: prompt, Slot: -1, Fresh: true}, 2+c.rng.IntN(90))
	if err != nil {
		t.Fatal(err)
	}
	c.questions = append(c.questions, q)
	return q
}

// draw makes the questions: a text, texts that share its beginning, and prompts that
// continue an answer. Recurrent models get no prompt that continues an answer, because
// they compute prompts and single tokens differently.
func (c *crowd) draw(t *testing.T, recurrent bool) {
	trunk := c.text(150 + c.rng.IntN(250))
	for range 4 {
		q := c.add(t, slices.Concat(trunk[:1+c.rng.IntN(len(trunk))], c.text(c.rng.IntN(120))))
		if !recurrent {
			c.add(t, slices.Concat(q.prompt, q.answer, c.text(1+c.rng.IntN(80))))
		}
	}
	c.add(t, trunk)
}

// ask runs a question with random settings: a salt, private mode, a given slot, a
// promised length, or a client that disconnects before the end.
func (c *crowd) ask(t *testing.T, rng *rand.Rand) {
	q := c.questions[rng.IntN(len(c.questions))]
	j := sched.Job{
		Prompt: q.prompt, Slot: -1, Most: len(q.rows) * rng.IntN(2), Salt: []string{"", "b"}[rng.IntN(2)], Private: rng.IntN(8) == 0,
	}
	if rng.IntN(4) == 0 {
		j.Slot = rng.IntN(c.slots)
	}
	if rng.IntN(2) == 0 {
		j.Borders = []int{1 + rng.IntN(len(q.prompt))}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if leaves := 1 + rng.IntN(2*len(q.prompt)); rng.IntN(5) == 0 {
		j.Prefilled = func(done int, _ *sched.Stats) {
			if done >= leaves {
				cancel()
			}
		}
	}
	rows, _, st, err := greedy(ctx, c.warm.e, j, len(q.rows))
	if err != nil && ctx.Err() == nil {
		t.Errorf("%d tokens: %v", len(q.prompt), err)
	}
	if err == nil && len(rows) != len(q.rows) {
		t.Errorf("%d tokens: an answer of %d tokens, want %d", len(q.prompt), len(rows), len(q.rows))
	}
	for i, h := range rows {
		if h != q.rows[i] {
			t.Errorf("%d tokens, %d of them from the cache, %d stored: token %d of the answer has other logits than a cold run",
				len(q.prompt), st.Cached, st.Stored, i)
			break
		}
	}
	c.mu.Lock()
	c.used += st.Cached
	c.mu.Unlock()
}

// moves saves, erases and restores a slot that other clients may use at the same
// time. A rejected operation changes nothing.
func (c *crowd) moves(t *testing.T, rng *rand.Rand) {
	var file bytes.Buffer
	e, ctx := c.warm.e, t.Context()
	if _, err := e.SaveSlot(ctx, rng.IntN(c.slots), &file); err != nil {
		return
	}
	if rng.IntN(2) == 0 {
		_, _ = e.EraseSlot(ctx, rng.IntN(c.slots))
	}
	if _, err := e.RestoreSlot(ctx, rng.IntN(c.slots), "", bytes.NewReader(file.Bytes())); err == nil {
		c.mu.Lock()
		c.moved++
		c.mu.Unlock()
	}
}

// TestCrowd runs concurrent requests with texts that begin alike. Every answer has
// the bits of a cold run, before and after a restart. CI draws some combinations of
// models and cache types.
func TestCrowd(t *testing.T) {
	seed := testSeed(t)
	draw := rand.New(rand.NewPCG(seed, 11))
	models, types := reuseModels(t), kv.Types()
	packed := slices.DeleteFunc(slices.Clone(types), func(k *kv.Type) bool { return k.Window.Newest == 0 })
	draws, used, moved := 12, 0, 0
	if testAll() {
		draws = 300
	}
	for i := range draws {
		m, list := models[draw.IntN(len(models))], types
		if i%2 == 0 { // half of the types have an exact window
			list = packed
		}
		want := layout.Want{K: list[draw.IntN(len(list))], V: list[draw.IntN(len(list))]}
		t.Run(m.name+"/"+want.K.Name+"/"+want.V.Name, func(t *testing.T) {
			memory := 0.0
			if i%3 == 0 {
				memory = 1 + draw.Float64()
			}
			u, n := gather(t, m, want, memory, rand.New(rand.NewPCG(seed, uint64(i)<<8|11)))
			used, moved = used+u, moved+n
		})
	}
	t.Logf("%d prompt tokens from the cache, %d slots saved and restored", used, moved)
	if used == 0 || moved == 0 {
		t.Error("nothing came from the cache, or from saved slots")
	}
}

// gather runs a crowd. memory is the memory of each conversation, as a multiple of the
// least that works; 0 leaves it unset. It returns how many prompt tokens came from the cache, and
// how many slots were saved and restored.
func gather(t *testing.T, m reuseModel, want layout.Want, memory float64, rng *rand.Rand) (used, moved int) {
	c := &crowd{rng: rng, slots: 2 + rng.IntN(3)}
	k := &keeper{t: t, path: m.path(t), dir: t.TempDir(), disk: []int64{0, 1 << 30}[rng.IntN(2)], o: engine.Options{
		Context: 768, Cells: []int{768, 768 * c.slots}[rng.IntN(2)], Parallel: c.slots, UBatch: []int{64, 96, 512}[rng.IntN(3)],
		Want: want, NoCalibration: true, Threads: 1,
	}}
	if memory > 0 {
		k.o.KV.Memory = int64(memory * float64(leastMemory(t, k.path, k.o)))
	}
	o := k.o
	o.Parallel, o.Cells, o.UBatch = 1, 768, 512
	c.warm, c.cold = k, openPath(t, k.path, o)
	c.vocab = c.cold.Config().Vocab
	kept := int64(1) << (17 + rng.IntN(12))
	open := func() {
		if k.store == nil {
			k.store = prefix.Open(prefix.Options{Dir: k.dir, Disk: k.disk, Memory: kept})
		}
		k.open()
	}
	c.draw(t, c.cold.KV().StateBytes() > 0)
	for range 3 {
		open()
		var wait sync.WaitGroup
		for range c.slots + 1 {
			client := rand.New(rand.NewPCG(rng.Uint64(), 12))
			wait.Go(func() {
				for range 4 {
					if client.IntN(4) == 0 {
						c.moves(t, client)
					}
					c.ask(t, client)
				}
			})
		}
		wait.Wait()
		k.close(rng.IntN(2) == 0)
	}
	if k.store != nil {
		if err := k.store.Close(); err != nil {
			t.Error(err)
		}
	}
	return c.used, c.moved
}

// TestDisplaced checks that a prefix store in which one piece displaces another
// stores what it can. An earlier version copied such pieces alternately, without end.
func TestDisplaced(t *testing.T) {
	i := slices.IndexFunc(reuseModels(t), func(m reuseModel) bool { return m.name == "qwen35moe" })
	path := reuseModels(t)[i].path(t)
	for memory := int64(32 << 10); memory < 4<<20; memory += memory / 4 {
		k := &keeper{t: t, path: path, store: prefix.Open(prefix.Options{Memory: memory}), o: engine.Options{
			Context: 1024, Parallel: 2, UBatch: 64, NoCalibration: true, Threads: 1,
		}}
		k.open()
		for n := range 3 {
			tokens := make([]llm.Token, 500+n)
			for i := range tokens {
				tokens[i] = llm.Token((i*7 + n) % k.e.Config().Vocab)
			}
			k.e.Rows(t, tokens, 3, false)
			k.e.Rows(t, append(tokens, 1, 2, 3), 3, false)
		}
		if u := k.store.Usage(); u.Memory > memory || memory > 1<<20 && u.Memory == 0 {
			t.Errorf("%d of %d bytes are used", u.Memory, memory)
		}
		k.close(true)
	}
}
