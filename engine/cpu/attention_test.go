package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// A row's result depends only on its sequence. It does not depend on the number
// of threads, the other sequences in the batch, the location of its pages, or
// how its prompt was divided.
func TestSameResults(t *testing.T) {
	for _, c := range []attnRig{
		{k: "f16", v: "f16", heads: 6, kvHeads: 2, dim: 64, dimV: 64},
		{k: "q8_0", v: "turbo3", heads: 4, kvHeads: 1, dim: 128, dimV: 128, sparseV: 1e-6},
		{k: "turbo3", v: "turbo2", heads: 3, kvHeads: 3, dim: 96, dimV: 96, window: 130},
		{k: "tbq3", v: "q5_1", heads: 4, kvHeads: 2, dim: 64, dimV: 64},
		{k: "bf16", v: "q4_0-rot", heads: 7, kvHeads: 1, dim: 80, dimV: 96, sparseV: 1e-3},
		{k: "tbq4", v: "tbq4", heads: 9, kvHeads: 1, dim: 576, dimV: 512, mla: true},
		{k: "turbo4", v: "tq3_0", heads: 2, kvHeads: 2, dim: 256, dimV: 256, options: backend.Options{FloatAttn: true}},
		{k: "turbo3", v: "q4_0", heads: 6, kvHeads: 2, dim: 64, dimV: 64, exact: kv.Window{Pinned: 4, Newest: 64}},
		{k: "q8_0", v: "turbo2", heads: 2, kvHeads: 1, dim: 64, dimV: 64, exact: kv.Window{Pinned: 9, Newest: 1}, options: backend.Options{FloatAttn: true}},
		{k: "gw2", v: "gw2", heads: 4, kvHeads: 2, dim: 64, dimV: 64, exact: kv.Window{Pinned: 4, Newest: 100}, window: 150},
		{k: "tbq4", v: "tbq4", heads: 9, kvHeads: 1, dim: 576, dimV: 512, mla: true, exact: kv.Window{Pinned: 4, Newest: 32}},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d/%d", c.k, c.v, c.dim, c.exact.Newest), func(t *testing.T) { testSameResults(t, c) })
	}
}

func testSameResults(t *testing.T, c attnRig) {
	c.cells, c.rows = 4096, 320
	c.options.Threads = 1
	c.random(1)
	rng := rand.New(rand.NewPCG(2, 2))
	tokens, most := someTokens(rng, 700), 3
	if testing.Short() { // the processor is emulated
		tokens, most = tokens[:530], 2 // still two chunks of 512
	}
	if c.mla {
		tokens = tokens[:200]
	}
	whole := func(int) int { return 256 }
	r := c.open(t)
	want := r.rowsOf(t, 0, tokens, whole, nil)
	check := func(what string, got []float32) {
		t.Helper()
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				w := c.heads * c.dimV
				t.Fatalf("%s: row %d value %d is %g, alone %g", what, i/w, i%w, got[i], want[i])
			}
		}
	}
	for threads := 2; threads <= most; threads++ {
		c.options.Threads = threads
		c.shuffle = uint64(threads)
		check(fmt.Sprintf("%d threads, shuffled pages", threads), c.open(t).rowsOf(t, 0, tokens, whole, nil))
		odd := func(int) int { return 1 + rng.IntN(90) }
		check("other chunks", c.open(t).rowsOf(t, 0, tokens, odd, nil))
		one := func(left int) int {
			if left > 80 {
				return left - 80
			}
			return 1
		}
		c.rows = 768
		check("token by token", c.open(t).rowsOf(t, 0, tokens, one, nil))
		c.rows = 320
		others := func(step int) []piece {
			if step%3 == 2 {
				return nil
			}
			return []piece{{2, someTokens(rng, 1+step%40)}, {1, someTokens(rng, 1)}}
		}
		check("company", c.open(t).rowsOf(t, 0, tokens, odd, others))
	}
}

// With one key among 8,192 that matches the query, Sparse V skips more than
// half of the cells. The output changes by at most the weight of the skipped
// cells. This is tested for one token and for a prompt, and with
// GODWIT_TEST=all for values of every type.
func TestSparseV(t *testing.T) {
	pairs := [][2]string{{"f16", "f16"}, {"q8_0", "turbo3"}, {"turbo3", "q8_0"}, {"f32", "q4_0"}, {"turbo4", "bf16"}}
	if os.Getenv("GODWIT_TEST") == "all" {
		for _, typ := range kv.Types() {
			pairs = append(pairs, [2]string{"q8_0", typ.Name})
		}
	}
	for _, types := range pairs {
		for _, float := range []bool{false, true} {
			for _, rows := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%s/float=%v/rows=%d", types[0], types[1], float, rows), func(t *testing.T) {
					testSparseV(t, attnRig{
						k: types[0], v: types[1], heads: 2, kvHeads: 1, dim: 128, dimV: 128, cells: 1 << 14, rows: rows,
						options: backend.Options{Threads: 2, FloatAttn: float},
					})
				})
			}
		}
	}
}

func testSparseV(t *testing.T, c attnRig) {
	const n, needle, tau = 8192, 5003, 1e-6
	c.random(3)
	for i := range c.heads * c.dim { // the query of token 0 has a large magnitude
		c.table[i] *= 8
	}
	decode := func(tau float32) (out []float32, s backend.Counts) {
		c.sparseV = tau
		r := c.open(t)
		rng := rand.New(rand.NewPCG(4, 4))
		r.fill(t, 0, n, func(cell int, s kv.Side) []float32 {
			x := make([]float32, c.dim)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
				if cell == needle && s == kv.K {
					x[i] = c.table[i] / 6
				}
			}
			return x
		})
		b := r.batch(t, piece{0, make([]llm.Token, c.rows)})
		r.run(t, b)
		return b.Logits, r.prog.Counts()[0]
	}
	var considered int64 // row i sees the n cells and i+1 cells of the batch
	for i := range c.rows {
		considered += int64((n + i + 1) * c.heads)
	}
	off, s := decode(0)
	if s.Skipped != 0 || s.Considered != considered {
		t.Errorf("off: %d of %d skipped, want 0 of %d", s.Skipped, s.Considered, considered)
	}
	least, _ := decode(math.SmallestNonzeroFloat32)
	if !slices.Equal(off, least) {
		t.Errorf("off differs from leaving out weights of zero")
	}
	on, s := decode(tau)
	if s.Skipped*2 < s.Considered || s.Considered != considered {
		t.Errorf("%d of %d cells skipped, want more than half", s.Skipped, s.Considered)
	}
	// The weights of a row sum to at least 1. A rotated V row is at most as
	// long as the row itself. 8-bit weights round as they do without Sparse V.
	limit := float64(s.Skipped)*tau*2*math.Sqrt(128) + 1e-6
	for i := range off {
		if d := math.Abs(float64(on[i] - off[i])); d > limit {
			t.Fatalf("value %d: %g with Sparse V, %g without, at most %g apart", i, on[i], off[i], limit)
		}
	}
}

// A step reads each page of K and V once for all query heads of a KV head, and
// reads nothing else from the cache.
func TestBytesRead(t *testing.T) {
	for _, c := range []attnRig{
		{k: "f16", v: "f16", heads: 8, kvHeads: 2, dim: 64, dimV: 64},
		{k: "q8_0", v: "turbo3", heads: 4, kvHeads: 1, dim: 128, dimV: 128},
		{k: "turbo3", v: "turbo3", heads: 9, kvHeads: 3, dim: 64, dimV: 64, window: 200},
		{k: "tbq3", v: "tbq3", heads: 16, kvHeads: 1, dim: 576, dimV: 512, mla: true},
		{k: "turbo3", v: "turbo3", heads: 9, kvHeads: 3, dim: 64, dimV: 64, exact: kv.Window{Pinned: 4, Newest: 64}},
	} {
		c.cells, c.rows, c.options.Threads = 2048, 128, 2
		c.random(5)
		r := c.open(t)
		tokens := someTokens(rand.New(rand.NewPCG(6, 6)), 1000)
		r.rowsOf(t, 0, tokens, func(int) int { return 128 }, nil)
		count := func() (k, v int64) {
			for i := range r.prog.skips {
				k, v = k+r.prog.skips[i].kBytes.Load(), v+r.prog.skips[i].vBytes.Load()
			}
			return k, v
		}
		k, v := count()
		r.run(t, r.batch(t, piece{0, tokens[:1]}))
		pages := int64(1001/kv.PageCells + 1)
		if c.window > 0 {
			pages -= int64(1001-c.window) / kv.PageCells
		}
		l := &r.layout.Layers[0]
		rowK, rowV := l.K.RowBytes, l.V.RowBytes
		if c.k == "turbo3" && c.dim == 64 { // half of the codes of each row of 50 bytes
			rowK, rowV = rowK/50*26, rowV/50*26
		}
		wantK, wantV := pages*kv.PageCells*int64(rowK), pages*kv.PageCells*int64(rowV)
		if c.mla {
			wantV = 0
		}
		if c.exact.Newest > 0 { // positions 937 to 1000 lie in two pages
			wantK += 2*kv.PageCells*int64(l.K.ExactRow-rowK) + int64(c.exact.Pinned*l.K.PinnedRow)
			wantV += 2*kv.PageCells*int64(l.V.ExactRow-rowV) + int64(c.exact.Pinned*l.V.PinnedRow)
		}
		nowK, nowV := count()
		if k, v = nowK-k, nowV-v; k != wantK || v != wantV {
			t.Errorf("%s/%s: a step reads %d bytes of K and %d of V, the plan says %d and %d", c.k, c.v, k, v, wantK, wantV)
		}
	}
}

// A run allocates nothing, not even for a token at depth 32,000.
func TestNoAllocation(t *testing.T) {
	context := 32000
	if testing.Short() { // the processor is emulated
		context = 1000
	}
	for i, types := range [][2]string{{"f16", "f16"}, {"q8_0", "turbo3"}, {"tbq3", "q4_1"}, {"gw2", "turbo3"}, {"turbo3", "turbo4"}} {
		c := attnRig{exact: kv.Window{Pinned: i, Newest: 32 * i}, k: types[0], v: types[1], heads: 6, kvHeads: 2, dim: 64, dimV: 64, cells: 1 << 15, rows: 64, options: backend.Options{Threads: 2}}
		c.random(7)
		r := c.open(t)
		tokens := someTokens(rand.New(rand.NewPCG(8, 8)), 64)
		r.fill(t, 2, context, func(cell int, _ kv.Side) []float32 { return c.table[cell%32*128:][:2*64] })
		prompt, step, far := r.batch(t, piece{0, tokens}), r.batch(t, piece{1, tokens[:1]}), r.batch(t, piece{2, tokens[:1]})
		for _, b := range []*llm.Batch{prompt, step, far} {
			if n := testing.AllocsPerRun(10, func() { r.run(t, b) }); n != 0 {
				t.Errorf("%s/%s, %d rows up to %d: %g allocations a run", c.k, c.v, len(b.Tokens), b.Spans[0].Len, n)
			}
		}
	}
}

// A worker's memory does not grow with the context, except for the chunks. They
// add a row of values for every 2,048 cells, and some for the short chunks.
func TestWorkerMemory(t *testing.T) {
	c := attnRig{k: "q8_0", v: "turbo3", heads: 8, kvHeads: 2, dim: 128, dimV: 128, rows: 64, options: backend.Options{Threads: 1}}
	c.random(7)
	bytes := func(cells int) uint64 {
		c.cells = cells
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.open(t)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	bytes(1024) // one-time allocations
	const more = 32768 - 1024
	chunks := (more/2048 + int(cutsFor(c.kvHeads))/shortPages) * 8 * c.heads / c.kvHeads
	if n, limit := bytes(32768)-bytes(1024), uint64(chunks*(4*c.dimV+64)+more); n > limit {
		t.Errorf("32,768 cells take %d bytes more than 1,024, want at most %d", n, limit)
	}
}

// Activations that are NaN, infinite, zero or far too large give finite
// results, both in their own rows and in rows that see them.
func TestBadInput(t *testing.T) {
	for _, typ := range kv.Types() {
		for _, float := range []bool{false, true} {
			for _, sides := range [][2]string{{typ.Name, typ.Name}, {typ.Name, "f32"}, {"f32", typ.Name}} {
				c := attnRig{
					k: sides[0], v: sides[1], heads: 4, kvHeads: 2, dim: 128, dimV: 128, cells: 512, rows: 256,
					options: backend.Options{Threads: 1, FloatAttn: float, Unchecked: true},
				}
				c.random(9)
				w := c.width()
				inf := float32(math.Inf(1))
				for token, v := range []float32{inf, -inf, inf - inf, 1e5, 3e38, 1e-42, 0} {
					row := c.table[token*w : (token+1)*w]
					if v == 0 {
						clear(row)
						continue
					}
					for i := token; i < w; i += 100 {
						row[i] = v
					}
				}
				r := c.open(t)
				tokens := someTokens(rand.New(rand.NewPCG(10, 10)), 150)
				copy(tokens[20:], []llm.Token{0, 1, 2, 3, 4, 5, 6})
				for i, v := range r.rowsOf(t, 0, tokens, func(int) int { return 100 }, nil) {
					if v-v != 0 {
						t.Errorf("%s/%s float=%v: row %d value %d is %g", c.k, c.v, float, i/(c.heads*c.dimV), i%(c.heads*c.dimV), v)
						break
					}
				}
			}
		}
	}
}

// The counters of two layers share no cache line, with lines of 64 bytes or
// Apple's 128.
func TestCountersApart(t *testing.T) {
	if n := unsafe.Sizeof(attnCount{}); n%128 != 0 {
		t.Errorf("the counters of a layer take %d bytes, want a multiple of 128", n)
	}
}
