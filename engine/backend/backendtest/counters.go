package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
)

// hostile holds NaN, infinity, and values at and beyond the range of f16.
var hostile = []float32{float32(math.NaN()), float32(math.Inf(1)), 1e20, 2e5, 65520, 65504}

// counters checks the counts of written rows. Blocks whose scale does not fit f16
// must be counted as the types' own encoders count them, by side and in every tier
// that has a place for the row. Rows of a KV head with NaN or infinity are counted
// once.
func (s *suite) counters(t T) {
	list := []Attention{
		{K: "f16", V: "q5_1", DimK: 64, DimV: 96, Exact: kv.Window{Pinned: 4, Newest: 32}},
		{K: "q4_0", V: "f16", DimK: 96, DimV: 64, MLA: true},
	}
	for _, one := range kv.Types() {
		list = append(list, Attention{K: one.Name, V: one.Name, DimK: 128, DimV: 128})
	}
	codes := trellis()
	for i, name := range codes {
		list = append(list, Attention{K: name, V: codes[(i+1)%len(codes)], DimK: 96, DimV: 64, Exact: kv.Window{Pinned: i, Newest: 64}})
	}
	for _, a := range list {
		a.Heads, a.KVHeads, a.Hostile = 4, 2, true
		t.Run(fmt.Sprintf("%+v", a), func(t T) {
			c := newAttentionCase(t, a)
			if p := s.compile(t, c.plan, &c.layout, c.sizesOf()); p != nil {
				c.count(t, p)
			}
		})
	}
}

// poison puts each hostile value into K of one row and into V of another. With MLA,
// only K is read.
func (a *Attention) poison(x []float32) {
	width := len(x) / vocab
	for i, v := range hostile {
		x[i*width+a.Heads*a.DimK+i] = v
		x[(i+3)*width+width-1] = v
	}
}

// count runs a chunk, single rows of both sequences, a single row of one
// sequence, and another chunk.
func (c *attentionCase) count(t T, prog backend.Program) {
	cache, err := pages.New(&c.layout, pages.Options{Copier: prog, Shuffle: rand.New(rand.NewPCG(7, 7))})
	if err != nil {
		t.Fatal(err)
	}
	in := newInput(9)
	var seen [2][]llm.Token
	for _, chunk := range [][]int{{40, 9}, {1, 1}, {1, 0}, {100, 1}} {
		b := &llm.Batch{}
		for seq, n := range chunk {
			if n > 0 {
				c.add(t, in, b, cache, llm.Seq(seq), n)
				seen[seq] = append(seen[seq], b.Tokens[len(b.Tokens)-n:]...)
			}
		}
		cache.Fill(b)
		b.Logits = make([]float32, len(b.Outputs)*c.Heads*c.DimV)
		var odd *backend.NotNumbers
		if err := prog.Run(context.Background(), b); err != nil && !errors.As(err, &odd) {
			t.Fatal(err)
		}
		c.rows(t, b, odd)
		got, want := prog.Counts()[0], c.counts(seen[:])
		if got.Saturated != want.Saturated || got.Broken != want.Broken {
			t.Errorf("rows %v: counted %v and %d, want %v and %d", chunk, got.Saturated, got.Broken, want.Saturated, want.Broken)
		}
	}
	if n := prog.Counts()[0]; n.Saturated[kv.K] == 0 && c.K != "f32" && c.K != "bf16" || n.Broken == 0 {
		t.Error("nothing to count")
	}
	if err := prog.Close(); err != nil {
		t.Error(err)
	}
}

// rows compares the rows that a device reports as not finite with the input. A
// device need not report any.
func (c *attentionCase) rows(t T, b *llm.Batch, odd *backend.NotNumbers) {
	if odd == nil {
		return
	}
	width := len(c.input) / vocab
	used := width
	if c.MLA { // values are a part of the keys
		used = (c.Heads + c.KVHeads) * c.DimK
	}
	var want []int
	for r, token := range b.Tokens {
		if slices.ContainsFunc(c.input[int(token)*width:][:used], func(v float32) bool { return v-v != 0 }) {
			want = append(want, r)
		}
	}
	if !slices.Equal(odd.Rows, want) {
		t.Errorf("rows %v are named as not finite, want %v", odd.Rows, want)
	}
}

// counts returns the expected counts of the rows of all sequences, computed
// with the types' own encoders.
func (c *attentionCase) counts(seqs [][]llm.Token) (n backend.Counts) {
	y := &c.layout.Layers[0]
	width := len(c.input) / vocab
	first := []int{kv.K: c.Heads * c.DimK, kv.V: (c.Heads + c.KVHeads) * c.DimK}
	for s, at := range first {
		l := y.Side(kv.Side(s))
		if l.View {
			continue
		}
		for _, tokens := range seqs {
			for pos, token := range tokens {
				for h := range c.KVHeads {
					x := c.input[int(token)*width+at+h*l.HeadDim:][:l.HeadDim]
					if slices.ContainsFunc(x, func(v float32) bool { return v-v != 0 }) {
						n.Broken++
					}
					n.Saturated[s] += saturated(y, l, x, pos, len(tokens))
				}
			}
		}
	}
	return n
}

// saturated counts the saturated blocks of a row of a KV head, in every tier that
// has a place for the row. The sequence has the given length.
func saturated(y *layout.Layer, l *layout.Side, x []float32, pos, length int) (n int64) {
	at := kv.At{Pos: pos, RopeBase: y.RopeBase}
	for _, tier := range []layout.Tier{layout.Pinned, layout.Exact, layout.Packed} {
		form := l.Form(tier)
		last := pos | (kv.PageCells - 1) // last position of its page; the page stays exact while a row may read its exact form
		waits := tier == layout.Packed && l.PackedByPage() && last > length-y.Exact.Newest
		if form == nil || waits || tier == layout.Pinned && pos >= y.Exact.Pinned {
			continue
		}
		row := make([]byte, form.RowBytes(l.HeadDim))
		n += int64(form.Encode(row, x, at))
		if tier == layout.Exact && l.PackedByPage() { // the packed form is made from the exact form
			x = make([]float32, l.HeadDim)
			form.Decode(x, row, at)
		}
	}
	return n
}
