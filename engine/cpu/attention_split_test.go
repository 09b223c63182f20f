package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/cpu/attn"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// A step whose context is divided among workers gives the same bits as the row
// of a prompt, which one worker computes. This holds for any number of workers,
// and for contexts and windows that begin and end near chunk borders.
func TestSplitContext(t *testing.T) {
	for _, c := range []attnRig{
		{k: "q8_0", v: "turbo3", heads: 3, kvHeads: 1, dim: 64, dimV: 64, layers: 2},
		{k: "turbo3", v: "q8_0", heads: 8, kvHeads: 8, dim: 64, dimV: 64, window: 64},
		{k: "q8_0", v: "q8_0", heads: 4, kvHeads: 4, dim: 64, dimV: 64, window: 130},
		{k: "turbo3", v: "turbo3", heads: 2, kvHeads: 2, dim: 64, dimV: 64, window: 576},
		{k: "q8_0", v: "turbo3", heads: 2, kvHeads: 1, dim: 64, dimV: 64, window: 1800, sparseV: 1e-3},
		{k: "turbo3", v: "q4_0", heads: 2, kvHeads: 1, dim: 64, dimV: 64, exact: kv.Window{Pinned: 4, Newest: 100}},
		{k: "gw2", v: "gw2", heads: 2, kvHeads: 2, dim: 64, dimV: 64, window: 150, exact: kv.Window{Pinned: 4, Newest: 100}},
		{k: "tbq4", v: "tbq4", heads: 2, kvHeads: 1, dim: 96, dimV: 64, mla: true},
	} {
		t.Run(fmt.Sprintf("%s/%s/window%d/%d", c.k, c.v, c.window, c.exact.Newest), func(t *testing.T) { testSplitContext(t, c) })
	}
}

func testSplitContext(t *testing.T, c attnRig) {
	pages, most := 66, []int{1, 2, 3, 5}
	if testing.Short() { // the processor is emulated
		pages, most = 34, most[1:2]
	}
	c.cells, c.seqs, c.rows = 70*kv.PageCells, 1, kv.PageCells
	c.random(11)
	tokens := someTokens(rand.New(rand.NewPCG(12, 12)), pages*kv.PageCells)
	c.options.Threads = 1
	want := c.open(t).rowsOf(t, 0, tokens, func(int) int { return c.rows }, nil)
	for _, c.options.Threads = range most {
		// Rows at page borders run alone: the first two and the last of each
		// page.
		got := c.open(t).rowsOf(t, 0, tokens, func(left int) int {
			if at := (len(tokens) - left) % kv.PageCells; at > 1 && at < kv.PageCells-1 {
				return kv.PageCells - 1 - at
			}
			return 1
		}, nil)
		for i := range want {
			if w := c.heads * c.dimV; math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%d threads: row %d value %d is %g, in a prompt %g", c.options.Threads, i/w, i%w, got[i], want[i])
			}
		}
	}
}

// Conversations of different lengths that step together give the same results
// as separately.
func TestSplitTogether(t *testing.T) {
	c := attnRig{k: "q8_0", v: "turbo3", heads: 3, kvHeads: 1, dim: 64, dimV: 64, cells: 1 << 14, rows: 4}
	c.random(13)
	lens := []int{2047, 1, 4160, 511}
	rows := func(cell int, _ kv.Side) []float32 { return c.table[cell%61*c.width():][:64] }
	step := func(threads int, seqs ...llm.Seq) []float32 {
		c.options.Threads = threads
		r := c.open(t)
		var pieces []piece
		for _, s := range seqs {
			r.fill(t, s, lens[s], rows)
			pieces = append(pieces, piece{s, []llm.Token{llm.Token(s)}})
		}
		b := r.batch(t, pieces...)
		r.run(t, b)
		return b.Logits
	}
	var want []float32
	for s := range lens {
		want = append(want, step(1, llm.Seq(s))...)
	}
	for _, threads := range []int{1, 2, 3, 5} {
		if got := step(threads, 0, 1, 2, 3); !slices.Equal(got, want) {
			t.Errorf("%d threads: together differs from alone", threads)
		}
	}
}

// Any range of consecutive pages has memory for its chunks. If contexts are
// divided, every chunk belongs to exactly one task.
func TestChunks(t *testing.T) {
	for _, heads := range []int{1, 2, 3, 8} {
		c := cutsFor(heads)
		for lo := range int(c) + longPages {
			for n := 1; n <= int(c)+2*longPages; n++ {
				if chunks := c.chunk(lo+n-1) + 1 - c.chunk(lo); chunks > c.room(n) {
					t.Fatalf("pages %d to %d have %d parts, memory for %d", lo, lo+n-1, chunks, c.room(n))
				}
			}
		}
		for chunk := range int(c)/shortPages + 4 {
			for page := c.start(chunk); page < c.start(chunk+1); page++ {
				if c.chunk(page) != chunk {
					t.Fatalf("page %d of part %d is in part %d", page, chunk, c.chunk(page))
				}
			}
		}
	}
	const heads = 3
	for _, workers := range []int{1, 2, 5} {
		for _, window := range []int{0, 1, 64, 130, 600, 2050, 2500} {
			for page := range 4 * longPages {
				b := &llm.Batch{Tokens: make([]llm.Token, 2), Pos: []int32{int32(page*kv.PageCells + page%kv.PageCells), 700}}
				for i, pos := range b.Pos {
					b.Spans = append(b.Spans, llm.Span{First: i, Rows: 1, Len: int(pos) + 1})
				}
				testChunks(t, &attention{
					Attention: graph.Attention{KVHeads: heads, Window: window}, p: &program{b: b}, cuts: cutsFor(heads),
					attnMemory: &attnMemory{workers: make([]*attnWorker, workers), jobs: 8 * workers},
				})
			}
		}
	}
}

func testChunks(t *testing.T, a *attention) {
	t.Helper()
	b := a.p.b
	if !a.splits() {
		t.Fatal("contexts are not divided")
	}
	done := make([][]int, len(b.Spans)*a.KVHeads)
	for task := range a.tasks() {
		j, ok := a.find(task)
		if !ok {
			continue
		}
		lo, hi := a.pages(b.Spans[j.span], j.first, 1)
		if j.lo != lo || j.hi != hi || j.split != j.span*a.KVHeads+j.head || j.chunks != a.cuts.chunk(hi-1)+1-a.cuts.chunk(lo) {
			t.Fatalf("position %d, window %d: task %d is %+v", b.Pos[j.span], a.Window, task, j)
		}
		for chunk := j.chunk; chunk < j.end; chunk++ {
			done[j.split] = append(done[j.split], chunk)
		}
		if len(done[j.split]) == j.chunks {
			for i, chunk := range done[j.split] {
				if i != chunk {
					t.Fatalf("position %d, window %d: parts %v", b.Pos[j.span], a.Window, done[j.split])
				}
			}
			done[j.split] = nil
		}
	}
	for _, left := range done {
		if left != nil {
			t.Fatalf("position %d, window %d: parts %v and no more", b.Pos[0], a.Window, left)
		}
	}
}

// Finding pages in runs gives the same pages as finding them one by one: in
// order, in other orders, across the border of a run, and with exact pages
// between them.
func TestFind(t *testing.T) {
	typ, err := kv.Parse("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	const heads, own, beyond = 3, 2*runPages + 5, 4
	form := attn.New(typ, 64, attn.Options{Side: kv.K})
	n := form.PageBytes()
	var s side
	s.store = store{form: form, pages: own, page: heads * n, data: make(memory, own*heads*n)}
	s.exact = store{form: form, pages: 3, page: heads * n, data: make(memory, 3*heads*n), beyond: make(memory, beyond*heads*n)}
	exact := make([]int32, own)
	for i := range exact {
		exact[i] = -1
	}
	exact[7], exact[8], exact[9], exact[40] = 2, 3, 1, 4
	at := &attention{attnForms: attnForms{kExact: form}, cache: &layerCache{window: layout.Window{Newest: 4 * 64 * own}}}
	rng := rand.New(rand.NewPCG(14, 14))
	for order := range 4 {
		p := jobPages{job: &job{rows: 1}, t: at, exact: exact}
		for i := range int32(own) {
			p.packed = append(p.packed, i)
		}
		switch order {
		case 1:
			slices.Reverse(p.packed)
		case 2:
			rng.Shuffle(own, func(i, j int) { p.packed[i], p.packed[j] = p.packed[j], p.packed[i] })
		case 3: // every page is used twice
			for i := range p.packed {
				p.packed[i] = int32(i / 2)
			}
		}
		for _, r := range []read{{&s, form, nil, nil}, {&s, form, form, nil}} {
			for p.head = range heads {
				for lo := range own {
					visits := make([]attn.Visit, min(longPages, own-lo))
					r.find(visits, &p, lo)
					for i, v := range visits {
						if one := r.at(&p, lo+i); &v.Page[0] != &one[0] || len(v.Page) != n || cap(v.Page) != n {
							t.Fatalf("order %d: page %d from %d of head %d is not what it is alone", order, lo+i, lo, p.head)
						}
					}
				}
			}
		}
	}
}
