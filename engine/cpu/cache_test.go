package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"godwit/engine/backend"
	"godwit/engine/cpu/attn"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// Copied cells contain the rows of their sources, and no other cell changes.
// This is tested for whole pages, parts of pages, and both together.
func TestCopyCells(t *testing.T) {
	const cells = 6 * kv.PageCells
	for _, typ := range []string{"f16", "q8_0", "turbo3"} {
		c := attnRig{
			k: typ, v: typ, heads: 2, kvHeads: 2, dim: 128, dimV: 128,
			cells: cells, rows: 1, options: backend.Options{Threads: 1},
		}
		c.random(1)
		r := c.open(t)
		rng := rand.New(rand.NewPCG(2, 2))
		r.fill(t, 0, cells, func(int, kv.Side) []float32 {
			x := make([]float32, 256)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		})
		read := func() (rows [][]byte) {
			for cell := range int32(cells) {
				for _, s := range []kv.Side{kv.K, kv.V} {
					row := make([]byte, r.prog.RowBytes(0, s, layout.Packed))
					if err := r.prog.ReadRow(row, 0, s, layout.Packed, cell); err != nil {
						t.Fatal(err)
					}
					rows = append(rows, row)
				}
			}
			return rows
		}
		for _, m := range []struct{ dst, src, n int }{{64, 0, 64}, {192, 64, 70}, {0, 192, 128}, {65, 192, 64}, {256, 3, 64}, {320, 0, 5}} {
			want := read()
			copy(want[2*m.dst:2*(m.dst+m.n)], want[2*m.src:2*(m.src+m.n)])
			if err := r.prog.CopyCells(0, layout.Packed, int32(m.dst), int32(m.src), m.n); err != nil {
				t.Fatal(err)
			}
			for i, row := range read() {
				if !bytes.Equal(row, want[i]) {
					t.Fatalf("%s: %d cells from %d to %d: cell %d differs", typ, m.n, m.src, m.dst, i/2)
				}
			}
		}
	}
}

// Every page of every KV head has its own memory, and all memory is used. The
// bytes that attention reads of a head are contiguous within a run.
func TestPages(t *testing.T) {
	for _, typ := range []*kv.Type{kv.Q8_0, kv.Turbo3, kv.Turbo4} {
		for _, pages := range []int{0, 1, runPages - 1, runPages, runPages + 1, 3*runPages + 7} {
			t.Run(fmt.Sprintf("%s/%d", typ.Name, pages), func(t *testing.T) {
				testPages(t, attn.New(typ, 64, attn.Options{Side: kv.K}), pages)
			})
		}
	}
}

func testPages(t *testing.T, form *attn.Form, pages int) {
	const heads, beyond = 3, 5
	n, read := form.PageBytes(), form.ReadBytes()
	s := store{form: form, pages: pages, page: heads * n, data: make(memory, pages*heads*n), beyond: make(memory, beyond*heads*n)}
	for p := range int32(pages + beyond) {
		for h := range heads {
			page := s.head(p, h)
			if r := s.read(p, h); &r[0] != &page.Read[0] || len(r) != read || cap(r) != read {
				t.Fatalf("what is read of page %d of head %d is not in the page", p, h)
			}
			if len(page.Read) != read || cap(page.Read) != read || len(page.Rest) != n-read || cap(page.Rest) != n-read {
				t.Fatalf("page %d of head %d has %d and %d bytes", p, h, len(page.Read), len(page.Rest))
			}
			for _, b := range [][]byte{page.Read, page.Rest} {
				for i := range b {
					b[i]++
				}
			}
		}
	}
	for i, b := range append(bytes.Clone(s.data), s.beyond...) {
		if b != 1 {
			t.Fatalf("byte %d is in %d pages", i, b)
		}
	}
	for p := int32(1); int(p) < min(pages, runPages); p++ {
		if a, b := s.read(p-1, 1), s.read(p, 1); uintptr(unsafe.Pointer(&b[0]))-uintptr(unsafe.Pointer(&a[0])) != uintptr(read) {
			t.Fatalf("page %d of a head is not behind page %d", p, p-1)
		}
	}
}

// Pages with asymmetric cells are marked, however the cells were written. A page that begins again
// is not. Attention over both kinds gives the result of float arithmetic.
func TestAsymmetricPages(t *testing.T) {
	c := attnRig{k: "turbo3", v: "turbo3", heads: 6, kvHeads: 2, dim: 64, dimV: 64, cells: 1024, rows: 200}
	c.random(3)
	const asymmetricToken = rigTokens - 1
	row := c.table[asymmetricToken*c.width()+c.heads*c.dim:]
	for _, at := range []int{0, 128} { // keys and values of the first head
		clear(row[at : at+64])
		row[at], row[at+9] = 7, 7
	}
	rng := rand.New(rand.NewPCG(4, 4))
	tokens := someTokens(rng, 420)
	for i := range tokens {
		tokens[i] %= asymmetricToken
		if i/64%3 == 1 && i%5 == 0 {
			tokens[i] = asymmetricToken
		}
	}
	var out [2][]float32
	var asymmetric *rigRun
	for i := range out {
		c.options = backend.Options{Threads: 2, FloatAttn: i == 1}
		r := c.open(t)
		out[i] = r.rowsOf(t, 0, tokens, func(left int) int {
			if left > 100 {
				return 200
			}
			return 1
		}, nil)
		if i == 0 {
			asymmetric = r
		}
	}
	var sum, off float64
	for i, v := range out[0] {
		d := float64(v - out[1][i])
		sum, off = sum+float64(v)*float64(v), off+d*d
	}
	if d := math.Sqrt(off / sum); !(d < 0.01) {
		t.Errorf("off by %g", d)
	}
	layer := asymmetric.prog.cache.layers[0]
	table := asymmetric.batch(t, piece{0, tokens[:1]}).Tables[0][0]
	for _, s := range []*store{&layer.k.store, &layer.v.store} {
		for i, page := range table[:6] {
			for head := range 2 {
				if s.isAsymmetric(page, head) != (i%3 == 1 && head == 0) {
					t.Errorf("page %d of head %d odd: %v", i, head, s.isAsymmetric(page, head))
				}
			}
		}
	}
	movesAsymmetric(t, asymmetric, table[1])
	layer.k.store.write(table[1], 0, 0, c.table[c.heads*c.dim:][:64], kv.At{}, asymmetric.prog.cache.scratch)
	if layer.k.isAsymmetric(table[1], 0) {
		t.Error("a page that begins anew is odd")
	}
}

// movesAsymmetric copies three things to the last page of the cache: a page whose first head is
// asymmetric, its first asymmetric cell, and that cell as a row.
func movesAsymmetric(t *testing.T, asymmetric *rigRun, page int32) {
	const last = 1024/kv.PageCells - 1
	from, to := page*kv.PageCells, int32(last*kv.PageCells)
	k := &asymmetric.prog.cache.layers[0].k.store
	asymmetricCell := (5 - 64%5) % 5
	for name, move := range map[string]func() error{
		"a page": func() error { return asymmetric.prog.CopyCells(0, layout.Packed, to, from, kv.PageCells) },
		"a cell": func() error { return asymmetric.prog.CopyCells(0, layout.Packed, to+7, from+int32(asymmetricCell), 1) },
		"a row": func() error {
			row := make([]byte, asymmetric.prog.RowBytes(0, kv.K, layout.Packed))
			if err := asymmetric.prog.ReadRow(row, 0, kv.K, layout.Packed, from+int32(asymmetricCell)); err != nil {
				return err
			}
			return asymmetric.prog.WriteRow(0, kv.K, layout.Packed, to+1, row)
		},
	} {
		k.mark(last, 0, 0, false)
		if err := move(); err != nil {
			t.Fatal(err)
		}
		if !k.isAsymmetric(last, 0) || k.isAsymmetric(last, 1) {
			t.Errorf("%s copied: odd %v, and the other head %v", name, k.isAsymmetric(last, 0), k.isAsymmetric(last, 1))
		}
	}
}
