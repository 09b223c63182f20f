package engine_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/prefix"
	"godwit/engine/testmodel"
)

// prefixTypes are the pairs of cache types for the tests below: floats, types
// packed when they are written, and types packed by page.
func prefixTypes(t testing.TB) (list []layout.Want) {
	for _, names := range [][2]string{{"f16", "f16"}, {"q8_0", "turbo3"}, {"gw3", "gw3"}} {
		k, err := kv.Parse(names[0])
		if err != nil {
			t.Fatal(err)
		}
		v, err := kv.Parse(names[1])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, layout.Want{K: k, V: v})
	}
	return list
}

// keeper opens a model repeatedly with a prefix store in one folder.
type keeper struct {
	t     *testing.T
	path  string
	o     engine.Options
	dir   string
	disk  int64
	store *prefix.Store
	e     *engine.Engine
}

// open opens the store and the model.
func (k *keeper) open() {
	k.t.Helper()
	if k.store == nil {
		k.store = prefix.Open(prefix.Options{Dir: k.dir, Disk: k.disk, Memory: 1 << 30})
	}
	k.o.Prefixes = k.store
	var err error
	if k.e, err = engine.Open(k.t.Context(), k.path, k.o); err != nil {
		k.t.Fatal(err)
	}
}

// close closes the model, and optionally the store.
func (k *keeper) close(store bool) {
	k.t.Helper()
	if err := k.e.Close(); err != nil {
		k.t.Fatal(err)
	}
	if store {
		if err := k.store.Close(); err != nil {
			k.t.Fatal(err)
		}
		k.store = nil
	}
}

// TestPrefixes checks that a text is not computed again after other requests took
// its slot, after the model was unloaded, and after a restart of the process. The
// logits have the bits of a cold run.
func TestPrefixes(t *testing.T) {
	seed := testSeed(t)
	models := reuseModels(t)
	for i, m := range models {
		for j, want := range prefixTypes(t) {
			if !testAll() && (i+j+int(seed))%4 != 0 {
				continue
			}
			t.Run(m.name+"/"+want.K.Name+"/"+want.V.Name, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, uint64(i)<<8|uint64(j)))
				comesBack(t, m, want, rng)
			})
		}
	}
}

// comesBack requests a text again after other requests, an unload, a restart of the
// process, and without a disk.
func comesBack(t *testing.T, m reuseModel, want layout.Want, rng *rand.Rand) {
	slots := 1 + rng.IntN(2)
	k := &keeper{t: t, path: m.path(t), dir: t.TempDir(), disk: 1 << 30, o: engine.Options{
		Context: 1024, Cells: 1024 * slots, Parallel: slots, UBatch: []int{64, 96, 512}[rng.IntN(3)], Want: want, NoCalibration: true, Threads: 1,
	}}
	cold := k.o
	cold.Parallel, cold.Cells, cold.UBatch = 1, 1024, 512
	k.open()
	r := &reuseRig{warm: k.e, cold: openPath(t, k.path, cold)}
	r.recurrent = k.e.KV().StateBytes() > 0
	text := func(n int) (list []llm.Token) {
		for range n {
			list = append(list, llm.Token(rng.IntN(r.cold.Config().Vocab)))
		}
		return list
	}
	long := text(200 + rng.IntN(200))
	pages := (len(long) - 1) / kv.PageCells * kv.PageCells
	answer := r.ask(t, "first", long, 10+rng.IntN(80), 0)
	held := slices.Concat(long, answer[:len(answer)-1])
	end := len(held)
	if !r.recurrent {
		end = end / kv.PageCells * kv.PageCells
	}
	next := slices.Concat(held, answer[len(answer)-1:], text(60))
	others := func() {
		for range slots + 1 {
			r.ask(t, "another", text(100+rng.IntN(100)), 3, 0)
		}
	}
	others()
	r.ask(t, "behind others", long, 40, pages)
	others()
	k.close(false)
	k.open()
	r.warm = k.e
	r.ask(t, "loaded again", long, 30, pages)
	k.close(true)
	k.open()
	r.warm = k.e
	r.ask(t, "after a restart", long, 30, pages)
	k.close(true)
	k.open()
	r.warm = k.e
	r.continued(t, "continued after a restart", next, 60, end)
	others()
	r.ask(t, "at last", long, 5, pages)
	k.close(true)
	k.disk = 0
	k.open()
	r.warm = k.e
	r.ask(t, "without a disk", long, 5, 0)
	others()
	r.ask(t, "from memory alone", long, 5, pages)
	k.close(true)
}

// TestAlike checks that the store keeps several texts that share their first page and
// differ within the second. With self-calibration, even the bytes of their first pages
// differ.
func TestAlike(t *testing.T) {
	seed := testSeed(t)
	for i, m := range reuseModels(t) {
		for j, want := range prefixTypes(t) {
			if !testAll() && j < 2 && (i+j+int(seed))%40 != 0 || j == 2 && (i+int(seed))%8 != 0 {
				continue
			}
			t.Run(m.name+"/"+want.K.Name+"/"+want.V.Name, func(t *testing.T) {
				alike(t, m, want, rand.New(rand.NewPCG(seed, uint64(i)<<8|uint64(j))))
			})
		}
	}
}

func alike(t *testing.T, m reuseModel, want layout.Want, rng *rand.Rand) {
	k := &keeper{t: t, path: m.path(t), dir: t.TempDir(), disk: 1 << 30, o: engine.Options{
		Context: 1024, Cells: 1024, Parallel: 1, Want: want, NoCalibration: true, Threads: 1,
	}}
	r := &reuseRig{cold: openPath(t, k.path, k.o)}
	text := func(n int) (list []llm.Token) {
		for range n {
			list = append(list, llm.Token(rng.IntN(r.cold.Config().Vocab)))
		}
		return list
	}
	first := text(2 * kv.PageCells)
	var texts [][]llm.Token
	for _, same := range []int{kv.PageCells, kv.PageCells + rng.IntN(kv.PageCells), 2*kv.PageCells - 1, 2 * kv.PageCells} {
		texts = append(texts, slices.Concat(first[:same], text(260-same)))
	}
	for range 2 {
		k.open()
		r.warm = k.e
		for i, x := range texts {
			least := 0
			if r.asked >= 260*len(texts) { // the second time
				least = (len(x) - 1) / kv.PageCells * kv.PageCells
			}
			r.ask(t, "text "+strconv.Itoa(i), x, 8, least)
		}
		k.close(true)
	}
}

// TestEdits edits a message of a chat. The chat is computed again from the end of the
// previous message, or for old messages from the end of an even earlier message.
func TestEdits(t *testing.T) {
	seed := testSeed(t)
	for i, m := range reuseModels(t) {
		for j, want := range prefixTypes(t) {
			if !testAll() && (i+j+int(seed))%6 != 0 {
				continue
			}
			t.Run(m.name+"/"+want.K.Name+"/"+want.V.Name, func(t *testing.T) {
				edits(t, m, want, rand.New(rand.NewPCG(seed, uint64(i)<<8|uint64(j))))
			})
		}
	}
}

func edits(t *testing.T, m reuseModel, want layout.Want, rng *rand.Rand) {
	k := &keeper{t: t, path: m.path(t), dir: t.TempDir(), disk: 1 << 30, o: engine.Options{
		Context: 2048, Cells: 2048, Parallel: 1, Want: want, NoCalibration: true, Threads: 1,
	}}
	cold := openPath(t, k.path, k.o)
	k.open()
	recurrent := k.e.KV().StateBytes() > 0
	text := func(n int) (list []llm.Token) {
		for range n {
			list = append(list, llm.Token(rng.IntN(cold.Config().Vocab)))
		}
		return list
	}
	var chat []llm.Token
	var borders []int
	for len(chat) < 1500 {
		chat = append(chat, text(40+rng.IntN(120))...)
		borders = append(borders, len(chat))
	}
	chat = append(chat, text(20)...)
	k.e.RowsWith(t, chat, borders, 3, false)
	n := len(borders)
	for _, back := range []int{1, 2, 3, 5, 7, 8, n / 2, n - 2, n - 1, n} {
		at := borders[n-back]
		least := at
		if back > 8 { // old points are sparse: their distance from the end at most doubles from one to the next
			least = max(borders[0], len(chat)-4*(len(chat)-at))
		}
		if !recurrent {
			least = least / kv.PageCells * kv.PageCells
		}
		if least < 128 && want.K.Name == "gw3" { // the conversation is still calibrating
			least = 0
		}
		edited := slices.Concat(chat[:at], text(50))
		got, _, st := k.e.RowsWith(t, edited, borders[:n-back+1], 3, false)
		same, _, _ := cold.Rows(t, edited, 3, true)
		if !bits(got, same) {
			t.Errorf("%d messages before the end: other logits than a cold run", back)
		}
		if st.Cached < least {
			t.Errorf("edited at %d of %d, %d messages before the end: %d tokens from the cache, want %d", at, len(chat), back, st.Cached, least)
		}
		if back == 5 {
			k.close(true)
			k.open()
		}
	}
	k.close(true)
}

// The role of a message comes from the template and not from its text.
func TestRoles(t *testing.T) {
	m := openPath(t, testmodel.SmolLM2(t), engine.Options{Context: 64}).Model()
	for text, want := range map[string][]string{
		"<|im_start|>system\nBe brief and kind.<|im_end|>\n<|im_start|>user\nWhich tool is best?<|im_end|>\n<|im_start|>assistant\n": {"system", "user", "assistant"},
		// Templates whose roles are control tokens have no role names for
		// roles to find.
		"<|im_start|>Which tool is best?<|im_end|>system of a down is a band": {"", ""},
		"<|im_start|>tool is a word here<|im_end|>\n\nuser manuals are long":  {"", ""},
	} {
		if got := m.Roles(t, text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
