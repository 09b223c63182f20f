package sched_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/prefix"
	"godwit/engine/sched"
)

// vocab is the vocabulary size of the fake model. It never generates token 0.
const vocab = 97

// fake is a device whose "model" hashes the contents of the cells that a row
// sees. A wrong page, a stale cell or another sequence's cell changes the
// answer.
type fake struct {
	layout *layout.Layout
	mem    map[int]*[2][3][]byte // keyed by layer, K and V, tier
	strict bool                  // cells hold their position, and reads check it
	delay  time.Duration         // delay of a step
	rotary []layout.Rotary       // keys are vectors rotated by position; nil: they hold token and position

	reads atomic.Int64 // rows that were read back

	pages, exact []int32 // tables of the first span of the last batch, in group 0

	mu    sync.Mutex
	steps []sched.Step
}

// tiny describes a test's scheduler.
type tiny struct {
	k, v    *kv.Type
	cells   int
	seqs    int
	context int
	rows    int
	window  int       // window of the second layer; 0 for none
	exact   kv.Window // zero: the defaults of the types
	splice  int
	shift   bool
	rotary  []layout.Rotary // RoPE of the keys; nil for none
	seed    uint64          // seed for shuffling the pages
	delay   time.Duration
	kept    *prefix.Store
	single  bool // draft rows are spans of one row
	outputs int  // output rows of a batch; 0 means 8
	queue   int  // limit of the queue
}

func newTiny(t testing.TB, c tiny) (*sched.Sched, *fake) {
	t.Helper()
	if c.k == nil {
		c.k, c.v = parse(t, "f32"), parse(t, "f32")
	}
	infos := []layout.LayerInfo{{Layer: 0}, {Layer: 1, Window: c.window}}
	for i := range infos {
		in := &infos[i]
		in.Cached, in.Heads, in.KVHeads, in.HeadDimK, in.HeadDimV, in.Share = true, 2, 2, 64, 64, -1
	}
	set := layout.Settings{Cells: c.cells, Seqs: c.seqs, UBatch: c.rows, Admitted: true}
	if c.exact != (kv.Window{}) {
		set.ExactWindow, set.ExactSinks = &c.exact.Newest, &c.exact.Pinned
	}
	l, err := layout.Resolve(layout.Want{K: c.k, V: c.v}, infos, set)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{layout: &l, mem: map[int]*[2][3][]byte{}, strict: c.k.Name == "f32" && !c.shift && c.splice == 0, delay: c.delay, rotary: c.rotary}
	for i := range l.Layers {
		y := &l.Layers[i]
		g := &l.Groups[y.Group]
		cells := [3]int{g.Cells(), (g.ExactPages + g.Passing) * kv.PageCells, c.seqs * y.Exact.Pinned}
		f.mem[i] = new([2][3][]byte)
		for _, s := range []kv.Side{kv.K, kv.V} {
			for part, n := range cells {
				f.mem[i][s][part] = make([]byte, n*y.Side(s).Row(layout.Tier(part)))
			}
		}
	}
	cache, err := pages.New(&l, pages.Options{Copier: f, Shuffle: rand.New(rand.NewPCG(c.seed, 1)), Model: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	o := sched.Options{Context: c.context, Rows: c.rows, Outputs: max(cmp.Or(c.outputs, 8), c.seqs), Vocab: vocab, Observe: f.observe, Queue: c.queue, SingleRows: c.single}
	if c.kept != nil {
		o.Prefixes, o.Origin = c.kept, prefix.Origin{ID: "tiny"}
		o.Unkept = func(err error) { t.Error("not kept:", err) }
	}
	if c.shift || c.splice > 0 {
		o.Shift, o.Rotary = c.shift, c.rotary
		if c.rotary == nil {
			o.Rotary = make([]layout.Rotary, 2)
		}
	}
	o.Splice = c.splice
	s := sched.New(f, cache, o)
	t.Cleanup(s.Close)
	return s, f
}

func parse(t testing.TB, name string) *kv.Type {
	t.Helper()
	x, err := kv.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (f *fake) observe(st sched.Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st.Slots = append([]int(nil), st.Slots...)
	f.steps = append(f.steps, st)
}

// taken returns the steps so far.
func (f *fake) taken() []sched.Step {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sched.Step(nil), f.steps...)
}

func (f *fake) row(layer int, s kv.Side, tier layout.Tier, cell int32) []byte {
	n := f.layout.Layers[layer].Side(s).Row(tier)
	return f.mem[layer][s][tier][int(cell)*n : (int(cell)+1)*n]
}

func (f *fake) RowBytes(layer int, s kv.Side, tier layout.Tier) int {
	return f.layout.Layers[layer].Side(s).Row(tier)
}

func (f *fake) ReadRow(dst []byte, layer int, s kv.Side, tier layout.Tier, cell int32) error {
	f.reads.Add(1)
	copy(dst, f.row(layer, s, tier, cell))
	return nil
}

func (f *fake) WriteRow(layer int, s kv.Side, tier layout.Tier, cell int32, src []byte) error {
	copy(f.row(layer, s, tier, cell), src)
	return nil
}

func (f *fake) CopyCells(group int, tier layout.Tier, dst, src int32, n int) error {
	for i := range f.layout.Layers {
		if f.layout.Layers[i].Group != group {
			continue
		}
		for _, s := range []kv.Side{kv.K, kv.V} {
			for c := range int32(n) {
				copy(f.row(i, s, tier, dst+c), f.row(i, s, tier, src+c))
			}
		}
	}
	return nil
}

func (f *fake) CopyState(int32, int32) error        { return nil }
func (f *fake) ReadState([]byte, int, int32) error  { return nil }
func (f *fake) WriteState(int, int32, []byte) error { return nil }
func (f *fake) Counts() []backend.Counts            { return make([]backend.Counts, len(f.layout.Layers)) }
func (f *fake) Memory() (m backend.Memory)          { return m }
func (f *fake) Close() error                        { return nil }

// Run writes every row's token into the cells. The output of each requested row
// is the hash of what the row sees.
func (f *fake) Run(_ context.Context, b *llm.Batch) error {
	time.Sleep(f.delay)
	f.pages, f.exact = append(f.pages[:0], b.Tables[0][0]...), f.exact[:0]
	if len(b.Exact[0]) > 0 {
		f.exact = append(f.exact, b.Exact[0][0]...)
	}
	x := make([]float32, 64)
	span := make([]int, len(b.Tokens))
	for s, sp := range b.Spans {
		for r := range sp.Rows {
			span[sp.First+r] = s
		}
	}
	for i := range f.layout.Layers {
		y := &f.layout.Layers[i]
		for r, tok := range b.Tokens {
			if _, err := f.cell(b, y, span[r], int(b.Pos[r])); err != nil {
				return err
			}
			if f.rotary != nil {
				f.roped(b, i, span[r], tok, int(b.Pos[r]))
				continue
			}
			x[0], x[1] = float32(tok), float32(b.Pos[r])
			for _, s := range []kv.Side{kv.K, kv.V} {
				f.write(b, i, s, span[r], int(b.Pos[r]), func(int) []float32 { return x })
			}
		}
	}
	f.pack(b)
	for k, r := range b.Outputs {
		next, err := f.answer(b, span[r], int(b.Pos[r]))
		if err != nil {
			return err
		}
		clear(b.Logits[k*vocab : (k+1)*vocab])
		b.Logits[k*vocab+next] = 1
	}
	return nil
}

// write stores the heads of a position in every tier that has a cell for it.
func (f *fake) write(b *llm.Batch, layer int, s kv.Side, span, pos int, x func(head int) []float32) {
	y := &f.layout.Layers[layer]
	side := y.Side(s)
	for part, cell := range f.tiers(b, y, span, pos) {
		p := layout.Tier(part)
		form := side.Form(p)
		if cell < 0 || form == nil {
			continue
		}
		row := f.row(layer, s, p, cell)
		if side.Active.Float && f.rotary == nil { // only two values are read
			form.Encode(row[:2*form.Bytes], x(0)[:2], kv.At{})
			continue
		}
		n := len(row) / y.KVHeads
		for h := range y.KVHeads {
			form.Encode(row[h*n:(h+1)*n], x(h), kv.At{Pos: pos, RopeBase: y.RopeBase})
		}
	}
}

// tiers returns the cells that a position is written to. Types that are packed
// by page skip the packed cell if there is an exact one.
func (f *fake) tiers(b *llm.Batch, y *layout.Layer, span, pos int) [3]int32 {
	cells := [3]int32{-1, -1, -1}
	cells[layout.Packed], _ = f.cell(b, y, span, pos)
	if len(b.Exact[y.Group]) > 0 && b.Exact[y.Group][span][pos/kv.PageCells] >= 0 {
		cells[layout.Exact] = b.Exact[y.Group][span][pos/kv.PageCells]*kv.PageCells + int32(pos%kv.PageCells)
		if y.K.PackedByPage() && y.V.PackedByPage() {
			cells[layout.Packed] = -1
		}
	}
	if pos < y.Exact.Pinned {
		cells[layout.Pinned] = int32(int(b.Spans[span].Seq)*y.Exact.Pinned + pos)
	}
	return cells
}

// pack packs the pages that the batch lists.
func (f *fake) pack(b *llm.Batch) {
	x := make([]float32, 64)
	for g, list := range b.Packs {
		for _, p := range list {
			for k, i := range f.layout.Groups[g].Layers {
				if step := k * p.Of / len(f.layout.Groups[g].Layers); step < p.From || step >= p.To {
					continue
				}
				y := &f.layout.Layers[i]
				for _, s := range []kv.Side{kv.K, kv.V} {
					side := y.Side(s)
					for c := range int32(kv.PageCells) {
						from, to := f.row(i, s, layout.Exact, p.Exact*kv.PageCells+c), f.row(i, s, layout.Packed, p.Page*kv.PageCells+c)
						n := len(from) / y.KVHeads
						for h := range y.KVHeads {
							side.Exact.Decode(x, from[h*n:(h+1)*n], kv.At{})
							side.Active.Encode(to[h*side.HeadBytes:(h+1)*side.HeadBytes], x, kv.At{})
						}
					}
				}
			}
		}
	}
}

// roped writes the key of a token at a position.
func (f *fake) roped(b *llm.Batch, layer, span int, tok llm.Token, pos int) {
	f.write(b, layer, kv.K, span, pos, func(h int) []float32 { return key(f.rotary[layer], tok, h, pos) })
}

// key returns a vector that depends on a token and head, rotated by a position.
func key(r layout.Rotary, tok llm.Token, head, pos int) []float32 {
	rnd := rand.New(rand.NewPCG(uint64(tok), uint64(head)))
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(rnd.NormFloat64())
	}
	for _, p := range r.Parts {
		n := len(p.Freqs)
		for j, freq := range p.Freqs {
			a, b := p.First+j, p.First+j+n
			if p.Adjacent {
				a, b = p.First+2*j, p.First+2*j+1
			}
			sin, cos := math.Sincos(float64(pos) * float64(freq))
			u, v := float64(x[a]), float64(x[b])
			x[a], x[b] = float32(u*cos-v*sin), float32(u*sin+v*cos)
		}
	}
	return x
}

func (f *fake) cell(b *llm.Batch, y *layout.Layer, span, pos int) (int32, error) {
	page := b.Tables[y.Group][span][pos/kv.PageCells]
	if page < 0 {
		return 0, fmt.Errorf("layer %d: page %d of span %d was given back", y.Layer, pos/kv.PageCells, span)
	}
	return page*kv.PageCells + int32(pos%kv.PageCells), nil
}

// answer returns a hash of the tokens that the row sees in each layer.
func (f *fake) answer(b *llm.Batch, span, pos int) (int, error) {
	sum := fnv.New32a()
	x, v := make([]float32, 2), make([]float32, 2)
	for i := range f.layout.Layers {
		y := &f.layout.Layers[i]
		for p := first(y.Window, pos); p <= pos; p++ {
			cell, err := f.cell(b, y, span, p)
			if err != nil {
				return 0, err
			}
			if !y.K.Active.Float {
				part := layout.Packed
				switch cells := f.tiers(b, y, span, p); {
				case y.K.Pinned != nil && cells[layout.Pinned] >= 0:
					part, cell = layout.Pinned, cells[layout.Pinned]
				case y.K.Exact != nil && cells[layout.Exact] >= 0 && p/kv.PageCells >= y.Exact.FirstExact(pos):
					part, cell = layout.Exact, cells[layout.Exact]
				}
				_, _ = sum.Write(f.row(i, kv.K, part, cell))
				continue
			}
			y.K.Active.Decode(x, f.row(i, kv.K, layout.Packed, cell), kv.At{})
			y.V.Active.Decode(v, f.row(i, kv.V, layout.Packed, cell), kv.At{})
			if f.strict && (int(x[1]) != p || x[0] != v[0]) {
				return 0, fmt.Errorf("layer %d: position %d of span %d holds the key of token %v at %v and the value of token %v", i, p, span, x[0], x[1], v[0])
			}
			add(sum, int(x[0]))
		}
	}
	return 1 + int(sum.Sum32()%(vocab-1)), nil
}

func first(window, pos int) int {
	if window == 0 {
		return 0
	}
	return max(0, pos-window+1)
}

func add(sum interface{ Write([]byte) (int, error) }, token int) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(token))
	_, _ = sum.Write(b[:])
}

// want returns the fake model's continuation of a prompt, computed from the
// tokens alone.
func want(prompt []llm.Token, n, window int) []llm.Token {
	tokens := append([]llm.Token(nil), prompt...)
	for range n {
		sum := fnv.New32a()
		for _, w := range []int{0, window} {
			for _, t := range tokens[first(w, len(tokens)-1):] {
				add(sum, int(t))
			}
		}
		tokens = append(tokens, llm.Token(1+sum.Sum32()%(vocab-1)))
	}
	return tokens[len(prompt):]
}

// result describes how a job ended.
type result struct {
	tokens []llm.Token
	finish sched.Finish
	stats  sched.Stats
	err    error
}

// begin submits a job that generates n tokens; see generates.
func begin(ctx context.Context, s *sched.Sched, j sched.Job, n int, token func()) (<-chan result, error) {
	done := generates(&j, n, token)
	return done, s.Submit(ctx, j)
}

// generates makes a job generate n tokens. token, if set, is called for each.
func generates(j *sched.Job, n int, token func()) <-chan result {
	done := make(chan result, 1)
	var r result
	j.Next = func(logits []float32) (llm.Token, bool, error) {
		best := 0
		for i, v := range logits {
			if v > logits[best] {
				best = i
			}
		}
		r.tokens = append(r.tokens, llm.Token(best))
		if token != nil {
			token()
		}
		return llm.Token(best), len(r.tokens) < n, nil
	}
	j.Done = func(f sched.Finish, st sched.Stats, err error) {
		r.finish, r.stats, r.err = f, st, err
		done <- r
	}
	return done
}

// slowly returns a token callback that takes 50 ms per token until until is
// closed. A job that uses it is still running then, however late that is. The
// loop is free between two tokens.
func slowly(until <-chan struct{}) func() {
	return func() {
		select {
		case <-until:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// run submits a job and waits for it.
func run(t testing.TB, s *sched.Sched, j sched.Job, n int) result {
	t.Helper()
	done, err := begin(t.Context(), s, j, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	return <-done
}

// text returns a prompt of n tokens that depends on a seed.
func text(seed uint64, n int) []llm.Token {
	r := rand.New(rand.NewPCG(seed, 2))
	out := make([]llm.Token, n)
	for i := range out {
		out[i] = llm.Token(1 + r.IntN(vocab-1))
	}
	return out
}
