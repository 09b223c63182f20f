package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"godwit/engine/backend"
	"godwit/engine/cpu/attn"
	"godwit/engine/kv"
)

// Copied cells hold the rows of their sources and no other cell changes:
// whole pages, parts of pages, and both together.
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
					row := make([]byte, r.prog.RowBytes(0, s, kv.Packed))
					if err := r.prog.ReadRow(row, 0, s, kv.Packed, cell); err != nil {
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
			if err := r.prog.CopyCells(0, kv.Packed, int32(m.dst), int32(m.src), m.n); err != nil {
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

// Every page of every KV head has memory of its own, all of it is used, and the
// pages of a head lie side by side as far as a run goes.
func TestPages(t *testing.T) {
	const heads, beyond = 3, 5
	typ, err := kv.Parse("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	form := attn.New(typ, 64, attn.Options{Side: kv.K})
	n := form.PageBytes()
	for _, pages := range []int{0, 1, runPages - 1, runPages, runPages + 1, 3*runPages + 7} {
		s := store{form: form, pages: pages, page: heads * n, data: make(memory, pages*heads*n), beyond: make(memory, beyond*heads*n)}
		seen := make(map[*byte]bool)
		for p := range int32(pages + beyond) {
			for h := range heads {
				b := s.head(p, h)
				if len(b) != n || cap(b) != n || seen[&b[0]] {
					t.Fatalf("%d pages: page %d of head %d has %d bytes, taken: %v", pages, p, h, len(b), seen[&b[0]])
				}
				seen[&b[0]] = true
				for i := range b {
					b[i]++
				}
			}
		}
		for i, b := range append(bytes.Clone(s.data), s.beyond...) {
			if b != 1 {
				t.Fatalf("%d pages: byte %d is in %d pages", pages, i, b)
			}
		}
		for p := int32(1); int(p) < min(pages, runPages); p++ {
			if a, b := s.head(p-1, 1), s.head(p, 1); uintptr(unsafe.Pointer(&b[0]))-uintptr(unsafe.Pointer(&a[0])) != uintptr(n) {
				t.Fatalf("%d pages: page %d of a head is not behind page %d", pages, p, p-1)
			}
		}
	}
}
