package engine_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// reuseRig sends the same requests to two engines with one model: one reuses what
// it has read, and the other reads every prompt from its beginning.
type reuseRig struct {
	warm, cold  *engine.Engine
	recurrent   bool
	goes        bool // sliding windows or recurrent states may have lost data that the end of a prompt needs
	exact       bool // the newest positions are read in exact form, and only points to continue from keep the exact rows of older text
	bound       bool // a conversation has a memory limit, and gives up the end of its prompt if it needs that memory
	used, asked int  // prompt tokens taken from the cache, and all prompt tokens
}

// bits reports whether two lists have the same floats, bit by bit.
func bits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// ask compares the logits of n generated tokens with a cold run, and checks that a
// minimum number of prompt tokens came from the cache. It returns the answer.
func (r *reuseRig) ask(t *testing.T, what string, prompt []llm.Token, n, least int) []llm.Token {
	t.Helper()
	got, tokens, st := r.warm.Rows(t, prompt, n, false)
	want, _, cold := r.cold.Rows(t, prompt, n, true)
	if cold.Cached != 0 {
		t.Fatalf("%s: the cold run took %d tokens from the cache", what, cold.Cached)
	}
	if !bits(got, want) {
		t.Errorf("%s: %d of %d tokens from the cache, and other logits than a cold run", what, st.Cached, len(prompt))
	}
	if st.Cached < least {
		t.Errorf("%s: %d of %d tokens from the cache, want %d", what, st.Cached, len(prompt), least)
	}
	r.used += st.Cached
	r.asked += len(prompt)
	return tokens
}

// continued sends a prompt that continues after an answer. Recurrent models compute
// a prompt and single tokens with different sums (see TestWindowChunks), so their
// results are not compared with a cold run.
func (r *reuseRig) continued(t *testing.T, what string, prompt []llm.Token, n, least int) {
	t.Helper()
	if !r.recurrent {
		r.ask(t, what, prompt, n, least)
		return
	}
	if _, _, st := r.warm.Rows(t, prompt, n, false); st.Cached < least {
		t.Errorf("%s: %d of %d tokens from the cache, want %d", what, st.Cached, len(prompt), least)
	}
}

// conversations makes typical requests: the same text again after a longer
// conversation with the same beginning, a branch, an edit, another prompt with the
// same beginning, and all of these from a saved slot.
func (r *reuseRig) conversations(t *testing.T, rng *rand.Rand, vocab, slots int) {
	text := func(n int) (list []llm.Token) {
		for range n {
			list = append(list, llm.Token(rng.IntN(vocab)))
		}
		return list
	}
	pages := func(n int) int { return n / kv.PageCells * kv.PageCells }
	short := text(130 + rng.IntN(120))
	first := pages(len(short) - 1)
	answer := r.ask(t, "short", short, 12+rng.IntN(60), 0)
	held := slices.Concat(short, answer[:len(answer)-1]) // the last token was not computed
	end := len(held)
	if !r.recurrent {
		end = pages(end)
	}
	next := slices.Concat(held, answer[len(answer)-1:], text(40+rng.IntN(100)))
	r.continued(t, "continued", next, 70+rng.IntN(80), end)
	least := first
	switch {
	case r.goes || r.bound:
		least = 0
	case r.exact: // the point to continue from may be one page earlier
		least -= kv.PageCells
	}
	r.ask(t, "short after the longer one", short, 40, least)
	long := slices.Concat(short, text(150+rng.IntN(250)))
	r.ask(t, "long", long, 20+rng.IntN(120), 0)
	r.ask(t, "short after the long one", short, 40, 0)
	r.ask(t, "branch", slices.Concat(short[:64+rng.IntN(60)], text(80)), 30, 0)
	r.ask(t, "edit", slices.Concat(long[:len(long)-70], text(30)), 90, 0)
	r.ask(t, "edit again", slices.Concat(long[:len(long)-70], text(90)), 10, 0)
	r.ask(t, "short at last", short, 70, 0)
	r.ask(t, "short, much answered", short, 80, 0)
	_, _, st := r.warm.Rows(t, short, 80, false)
	if st.Cached != first && !r.bound {
		t.Errorf("asked at once again, %d tokens from the cache, want %d", st.Cached, first)
	}
	var file bytes.Buffer
	if _, err := r.warm.SaveSlot(t.Context(), st.Slot, &file); err != nil {
		t.Fatal(err)
	}
	for i := range slots {
		if _, err := r.warm.EraseSlot(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	slot := rng.IntN(slots)
	if _, err := r.warm.RestoreSlot(t.Context(), slot, "", bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	if from, err := r.warm.ReuseFrom(t.Context(), slot); err != nil || from <= 0 || from > st.Cached && !r.bound {
		t.Errorf("restored, it says that reuse begins at %d, want at most %d; %v", from, st.Cached, err)
	}
	if least = st.Cached; r.bound {
		least = 0
	}
	r.ask(t, "restored", short, 100, least)
	r.ask(t, "branch of the restored", slices.Concat(short[:len(short)-20], text(40)), 60, 0)
}

// reuseModel is a model in the test matrix.
type reuseModel struct {
	name string
	path func(t testing.TB) string
}

// reuseModels returns the small models and the models of peerModels. With
// GODWIT_TEST=all, it adds the demo models.
func reuseModels(t *testing.T) (list []reuseModel) {
	for _, m := range smallModels(t) {
		list = append(list, reuseModel{m.Name, m.small})
	}
	for name, make := range peerModels() {
		if strings.Contains(name, "bert") || strings.Contains(name, "embed") {
			continue // encoders keep no cache
		}
		list = append(list, reuseModel{name, func(t testing.TB) string {
			path := filepath.Join(t.TempDir(), name+".gguf")
			if err := os.WriteFile(path, make().file(t), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}})
	}
	slices.SortFunc(list, func(a, b reuseModel) int { return strings.Compare(a.name, b.name) })
	if testAll() {
		for _, m := range realModels {
			list = append(list, reuseModel{m.name, m.path})
		}
	}
	return list
}

// openReuse opens both engines of a rig.
func openReuse(t *testing.T, path string, want layout.Want, set layout.Settings, slots int, rng *rand.Rand) *reuseRig {
	ubatch := []int{64, 96, 512}[rng.IntN(3)]
	open := func(slots, ubatch int) *engine.Engine {
		return openPath(t, path, engine.Options{
			Context: 1024, Cells: 1024 * slots, Parallel: slots, UBatch: ubatch, Want: want, KV: set, NoCalibration: true, Threads: 1,
		})
	}
	r := &reuseRig{warm: open(slots, ubatch), cold: open(1, 512), bound: set.Memory > 0}
	r.exact = want.K.Window.Newest > 0
	r.recurrent = r.warm.KV().StateBytes() > 0
	r.goes = r.recurrent || slices.ContainsFunc(r.warm.KV().Groups, func(g layout.Group) bool { return g.Window > 0 })
	return r
}

// TestReuse checks that the logits of a request have the bits of a cold run, whatever
// an earlier conversation has left behind. It combines every cache type with every
// model. CI draws some of the combinations, GODWIT_TEST=all runs all, and GODWIT_SEED
// repeats a draw.
func TestReuse(t *testing.T) {
	seed := testSeed(t)
	models := reuseModels(t)
	type combination struct {
		model int
		k, v  *kv.Type
	}
	var list []combination
	for i := range models {
		for _, typ := range kv.Types() {
			list = append(list, combination{i, typ, typ})
		}
	}
	draw := rand.New(rand.NewPCG(seed, 1))
	if !testAll() { // half of the types have an exact window
		gw := slices.DeleteFunc(slices.Clone(list), func(c combination) bool { return c.k.Window.Newest == 0 })
		for _, l := range [][]combination{list, gw} {
			draw.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		}
		list = append(list[:12], gw[:28]...)
	}
	used, asked := 0, 0
	for i, c := range list {
		m := models[c.model]
		t.Run(m.name+"/"+c.k.Name+"/"+c.v.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(c.model)<<16|uint64(i)))
			slots := 1 + rng.IntN(3)
			r := openReuse(t, m.path(t), layout.Want{K: c.k, V: c.v}, layout.Settings{}, slots, rng)
			r.conversations(t, rng, r.warm.Config().Vocab, slots)
			used, asked = used+r.used, asked+r.asked
		})
	}
	t.Logf("%d combinations, %d of %d prompt tokens from the cache", len(list), used, asked)
}

// testSeed returns the seed of a test that draws its cases: GODWIT_SEED, or a new
// one, which is logged.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GODWIT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("GODWIT_SEED=%d", seed)
	return seed
}
