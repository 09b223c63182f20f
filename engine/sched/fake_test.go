package sched_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// vocab is the fake model's. Token 0 is never generated.
const vocab = 97

// fake is a device whose "model" is a hash over what it finds in the cells that
// a row sees. A wrong page, a stale cell or a foreign one changes the answer.
type fake struct {
	layout *kv.Layout
	mem    map[int]*[2][]byte // by layer, K and V
	strict bool               // cells hold their position, which is checked
	delay  time.Duration      // of a step
	rotary []sched.Rotary     // keys are turned vectors; nil: they hold token and position

	cells []int32 // of the last batch's first span in group 0, by position

	mu    sync.Mutex
	steps []sched.Step
}

// tiny is what a test's scheduler is made of.
type tiny struct {
	k, v    *kv.Type
	cells   int
	seqs    int
	context int
	rows    int
	window  int // of the second layer; 0: none
	shift   bool
	rotary  []sched.Rotary // keys are turned by their position
	seed    uint64         // shuffles the pages
	delay   time.Duration
}

func newTiny(t testing.TB, c tiny) (*sched.Sched, *fake) {
	t.Helper()
	if c.k == nil {
		c.k, c.v = parse(t, "f32"), parse(t, "f32")
	}
	infos := []kv.LayerInfo{{Layer: 0}, {Layer: 1, Window: c.window}}
	for i := range infos {
		l := &infos[i]
		l.Cached, l.Heads, l.KVHeads, l.HeadDimK, l.HeadDimV, l.Share = true, 2, 2, 64, 64, -1
	}
	layout, err := kv.Resolve(kv.Want{K: c.k, V: c.v}, infos, kv.Settings{Cells: c.cells, Seqs: c.seqs, UBatch: c.rows})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{layout: &layout, mem: map[int]*[2][]byte{}, strict: c.k.Name == "f32" && !c.shift, delay: c.delay, rotary: c.rotary}
	for i := range layout.Layers {
		y := &layout.Layers[i]
		n := layout.Groups[y.Group].Cells()
		f.mem[i] = &[2][]byte{make([]byte, n*y.K.RowBytes), make([]byte, n*y.V.RowBytes)}
	}
	cache, err := kv.New(&layout, kv.Options{Copier: f, Shuffle: rand.New(rand.NewPCG(c.seed, 1)), Model: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	o := sched.Options{Context: c.context, Rows: c.rows, Outputs: max(8, c.seqs), Vocab: vocab, Observe: f.observe}
	if c.shift {
		o.Shift, o.Rotary = true, c.rotary
		if c.rotary == nil {
			o.Rotary = make([]sched.Rotary, 2)
		}
	}
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

func (f *fake) row(layer int, s kv.Side, cell int32) []byte {
	n := f.layout.Layers[layer].Side(s).RowBytes
	return f.mem[layer][s][int(cell)*n : (int(cell)+1)*n]
}

func (f *fake) RowBytes(layer int, s kv.Side, part kv.Part) int {
	if part != kv.Packed {
		return 0
	}
	return f.layout.Layers[layer].Side(s).RowBytes
}

func (f *fake) ReadRow(dst []byte, layer int, s kv.Side, _ kv.Part, cell int32) error {
	copy(dst, f.row(layer, s, cell))
	return nil
}

func (f *fake) WriteRow(layer int, s kv.Side, _ kv.Part, cell int32, src []byte) error {
	copy(f.row(layer, s, cell), src)
	return nil
}

func (f *fake) CopyCells(group int, _ kv.Part, dst, src int32, n int) error {
	for i := range f.layout.Layers {
		if f.layout.Layers[i].Group != group {
			continue
		}
		for _, s := range []kv.Side{kv.K, kv.V} {
			for c := range int32(n) {
				copy(f.row(i, s, dst+c), f.row(i, s, src+c))
			}
		}
	}
	return nil
}

func (f *fake) CopyState(int32, int32) error        { return nil }
func (f *fake) ReadState([]byte, int, int32) error  { return nil }
func (f *fake) WriteState(int, int32, []byte) error { return nil }
func (f *fake) Skipped() []backend.Skip             { return make([]backend.Skip, len(f.layout.Layers)) }
func (f *fake) Memory() (m backend.Memory)          { return m }
func (f *fake) Close() error                        { return nil }

// Run writes every row's token into the cells and answers with the hash of
// what each wanted row sees.
func (f *fake) Run(_ context.Context, b *llm.Batch) error {
	time.Sleep(f.delay)
	f.cells = f.cells[:0]
	for _, page := range b.Tables[0][0] {
		for c := range int32(kv.PageCells) {
			f.cells = append(f.cells, page*kv.PageCells+c)
		}
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
			cell, err := f.cell(b, y, span[r], int(b.Pos[r]))
			if err != nil {
				return err
			}
			if f.rotary != nil {
				f.turned(i, cell, tok, int(b.Pos[r]))
				continue
			}
			x[0], x[1] = float32(tok), float32(b.Pos[r])
			for _, s := range []kv.Side{kv.K, kv.V} {
				side := y.Side(s)
				if side.Active.Float { // the two values are all that is read
					side.Active.Encode(f.row(i, s, cell)[:2*side.Active.Bytes], x[:2], kv.At{})
					continue
				}
				for h := range y.KVHeads {
					side.Active.Encode(f.row(i, s, cell)[h*side.HeadBytes:(h+1)*side.HeadBytes], x, kv.At{Pos: int(b.Pos[r])})
				}
			}
		}
	}
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

// turned writes the key of a token at a position.
func (f *fake) turned(layer int, cell int32, tok llm.Token, pos int) {
	y := &f.layout.Layers[layer]
	for h := range y.KVHeads {
		x := key(f.rotary[layer], tok, h, pos)
		y.K.Active.Encode(f.row(layer, kv.K, cell)[h*y.K.HeadBytes:(h+1)*y.K.HeadBytes], x, kv.At{Pos: pos, RopeBase: y.RopeBase})
	}
}

// key is a vector of a token and head, turned by a position.
func key(r sched.Rotary, tok llm.Token, head, pos int) []float32 {
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

func (f *fake) cell(b *llm.Batch, y *kv.LayerLayout, span, pos int) (int32, error) {
	page := b.Tables[y.Group][span][pos/kv.PageCells]
	if page < 0 {
		return 0, fmt.Errorf("layer %d: page %d of span %d was given back", y.Layer, pos/kv.PageCells, span)
	}
	return page*kv.PageCells + int32(pos%kv.PageCells), nil
}

// answer hashes the tokens that the row sees in each layer.
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
				_, _ = sum.Write(f.row(i, kv.K, cell))
				continue
			}
			y.K.Active.Decode(x, f.row(i, kv.K, cell), kv.At{})
			y.V.Active.Decode(v, f.row(i, kv.V, cell), kv.At{})
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

// want is what the fake model goes on with after a prompt, worked out from the
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

// result is how a job ended.
type result struct {
	tokens []llm.Token
	finish sched.Finish
	stats  sched.Stats
	err    error
}

// begin submits a job that generates n tokens. token, if set, is called with
// each.
func begin(ctx context.Context, s *sched.Sched, j sched.Job, n int, token func()) (<-chan result, error) {
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
	return done, s.Submit(ctx, j)
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

// text is a prompt of n tokens made from a seed.
func text(seed uint64, n int) []llm.Token {
	r := rand.New(rand.NewPCG(seed, 2))
	out := make([]llm.Token, n)
	for i := range out {
		out[i] = llm.Token(1 + r.IntN(vocab-1))
	}
	return out
}
