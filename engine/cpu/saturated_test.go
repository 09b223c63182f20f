package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// Keys and values with a scale that f16 cannot represent are counted when they
// are written, one per block, by side. The counts equal those of the types' own
// encoders, for any number of threads and any chunks. Exact pages and pinned
// rows count too. Types that are packed by page count when they are packed.
func TestSaturated(t *testing.T) {
	hostile := []float32{float32(math.NaN()), float32(math.Inf(1)), 1e20, 2e5, 65520, 65504}
	for _, c := range []attnRig{
		{k: "turbo3", v: "q8_0", heads: 2, kvHeads: 2, dim: 128, dimV: 128},
		{k: "f16", v: "tbqp3", heads: 4, kvHeads: 2, dim: 64, dimV: 64},
		{k: "tbqp4", v: "q5_1", heads: 2, kvHeads: 1, dim: 256, dimV: 256},
		{k: "bf16", v: "iq4_nl", heads: 2, kvHeads: 1, dim: 64, dimV: 64},
		{k: "tq3_0", v: "oa-turbo2", heads: 2, kvHeads: 1, dim: 128, dimV: 128, exact: kv.Window{Pinned: 4, Newest: 32}},
		{k: "gw3", v: "gw2", heads: 2, kvHeads: 1, dim: 96, dimV: 96},
		{k: "gw2", v: "turbo4", heads: 2, kvHeads: 1, dim: 64, dimV: 64, exact: kv.Window{Pinned: 3, Newest: 70}},
		{k: "tbq4", v: "tbq4", heads: 4, kvHeads: 1, dim: 576, dimV: 512, mla: true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d/%d", c.k, c.v, c.dim, c.exact.Newest), func(t *testing.T) {
			c.cells, c.rows, c.options.Unchecked = 1024, 200, true
			c.random(1)
			for i, v := range hostile {
				row := c.table[i*c.width() : (i+1)*c.width()]
				row[c.heads*c.dim+i] = v
				if !c.mla {
					row[(c.heads+c.kvHeads)*c.dim+i] = v
				}
			}
			tokens := someTokens(rand.New(rand.NewPCG(2, 2)), 320)
			var want [2]int64
			for threads, chunk := range []int{320, 200, 1, 77} {
				c.options.Threads = 1 + threads%3
				c.rows = chunk
				r := c.open(t)
				r.rowsOf(t, 0, tokens, func(int) int { return chunk }, nil)
				if want == ([2]int64{}) {
					want = r.saturated(tokens)
					if want[kv.K]+want[kv.V] == 0 {
						t.Fatal("nothing to count")
					}
				}
				if got := r.prog.Counts()[0].Saturated; got != want {
					t.Errorf("%d threads, chunks of %d: %v blocks counted, want %v", c.options.Threads, chunk, got, want)
				}
			}
		})
	}
}

// saturated counts the saturated blocks of tokens at the start of a sequence
// with the types' own encoders, in every tier that has a cell for them.
func (r *rigRun) saturated(tokens []llm.Token) (n [2]int64) {
	y := &r.layout.Layers[0]
	first := []int{kv.K: r.heads * r.dim, kv.V: (r.heads + r.kvHeads) * r.dim}
	for s, at := range first {
		l := y.Side(kv.Side(s))
		if l.View {
			continue
		}
		for pos, tok := range tokens {
			for h := range r.kvHeads {
				x := r.table[int(tok)*r.width()+at+h*l.HeadDim:][:l.HeadDim]
				for _, tier := range []layout.Tier{layout.Pinned, layout.Exact, layout.Packed} {
					form := l.Form(tier)
					last := pos | (kv.PageCells - 1) // last position of the page; the page is packed when no row reads it exactly any more
					waits := tier == layout.Packed && l.PackedByPage() && last > len(tokens)-y.Exact.Newest
					if form == nil || waits || tier == layout.Pinned && pos >= y.Exact.Pinned {
						continue
					}
					buf, back := make([]byte, form.RowBytes(l.HeadDim)), make([]float32, l.HeadDim)
					at := kv.At{Pos: pos, RopeBase: 10000}
					n[s] += int64(form.Encode(buf, x, at))
					if tier == layout.Exact && l.PackedByPage() { // the packed form is encoded from the exact form
						form.Decode(back, buf, at)
						x = back
					}
				}
			}
		}
	}
	return n
}
