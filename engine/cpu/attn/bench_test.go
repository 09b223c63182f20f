package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"godwit/engine/kv"
)

// chunkPages is the largest number of pages that the backend passes to a kernel
// in one call: longPages of package cpu.
const chunkPages = 32

// stepBench is one decode step of one KV head over a context.
type stepBench struct {
	k, v    *Form
	kData   []byte
	vData   []byte
	heads   int // number of heads, which run one after another
	pages   int
	q       *Queries
	scores  []float32
	acc     []float32
	visible [chunkPages]uint64
	scratch *Scratch
}

// newStepBench fills a cache of at least size bytes with copies of one page.
func newStepBench(b *testing.B, kName, vName string, dim, group, ctx, size int) *stepBench {
	form := func(name string, s kv.Side) *Form {
		t, err := kv.Parse(name)
		if err != nil {
			b.Fatal(err)
		}
		f := t.Fit(dim, s).Form
		return New(f, dim, Options{Side: s})
	}
	s := &stepBench{k: form(kName, kv.K), v: form(vName, kv.V), pages: ctx / Cells}
	s.heads = max(1, size/(s.pages*(s.k.ReadBytes()+s.v.ReadBytes())))
	rng := rand.New(rand.NewPCG(1, 1))
	fill := func(f *Form) []byte {
		page, _, _ := pageOf(rng, f, Cells)
		data := huge(b, s.heads*s.pages*f.ReadBytes())
		for d := data; len(d) > 0; d = d[copy(d, page.Read):] {
		}
		return data
	}
	s.kData, s.vData = fill(s.k), fill(s.v)
	s.q = s.k.NewQueries(group)
	s.q.N = group
	for i := range group {
		s.q.Set(i, random(rng, dim))
	}
	s.scores = make([]float32, chunkPages*group*Cells)
	for i := range s.visible {
		s.visible[i] = ^uint64(0)
	}
	s.acc = make([]float32, group*s.v.Padded)
	s.scratch = NewScratch(s.k, s.v)
	return s
}

// run attends over the context of one head in chunks, as the backend does.
func (s *stepBench) run(head int, scale float32) {
	k, v := s.k.ReadBytes(), s.v.ReadBytes()
	kPage := func(p int) []byte { return s.kData[(head*s.pages+min(p, s.pages-1))*k:][:k] }
	vPage := func(p int) []byte { return s.vData[(head*s.pages+min(p, s.pages-1))*v:][:v] }
	n := s.q.N * Cells
	var list [chunkPages]Visit
	for first := 0; first < s.pages; first += len(list) {
		visits := list[:min(len(list), s.pages-first)]
		for i := range visits {
			next := kPage(first + i + s.k.Ahead())
			if n := i + s.k.Ahead() - len(visits); n >= 0 {
				next = vPage(first + n)
			}
			visits[i] = Visit{Page: kPage(first + i), Ahead: Distance(kPage(first+i), next), At: i * n, Cells: Cells}
		}
		s.k.Scores(s.scores, s.q, visits, s.scratch)
		var used, kept [len(list)]uint64
		for i := range s.q.N {
			top := Logits(s.scores[i*Cells:], n, scale, s.visible[:len(visits)], 4)
			Weights(s.scores[i*Cells:], n, s.visible[:len(visits)], top, 1e-6, kept[:])
			for p := range used {
				used[p] |= kept[p]
			}
		}
		for i := range visits {
			next := vPage(first + i + s.v.Ahead())
			if n := i + s.v.Ahead() - len(visits); n >= 0 {
				next = kPage(first + len(visits) + n)
			}
			visits[i] = Visit{Page: vPage(first + i), Ahead: Distance(vPage(first+i), next), At: i * n, Used: used[i]}
		}
		s.v.Accumulate(s.acc, s.scores, s.q.N, visits, s.scratch)
	}
}

func (s *stepBench) bench(b *testing.B, scale float32) {
	tokens := s.pages * Cells
	b.SetBytes(int64(tokens * (s.k.RowBytes() + s.v.RowBytes())))
	head, best := 0, time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		s.run(head, scale)
		best = min(best, time.Since(start))
		head = (head + 1) % s.heads
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tokens), "ns/token")
	b.ReportMetric(float64(best.Nanoseconds())/float64(tokens), "best-ns/token") // useful on a busy machine
}

// BenchmarkDecode runs a decode step over a synthetic cache, in the
// second-level cache and in memory. It reports nanoseconds per token and KV
// head.
func BenchmarkDecode(b *testing.B) {
	for _, ctx := range []struct {
		name   string
		tokens int
		size   int
	}{{"L2", 1024, 0}, {"DRAM", 32768, 192 << 20}} {
		for _, dim := range []int{128, 64, 256} {
			for _, group := range []int{1, 3, 4} {
				for _, t := range []string{"f16", "q8_0", "q4_0", "turbo4", "turbo3", "turbo2", "tbq3", "gw2", "gw3", "gw4"} {
					b.Run(fmt.Sprintf("%s/d%d/g%d/%s", ctx.name, dim, group, t), func(b *testing.B) {
						s := newStepBench(b, t, t, dim, group, ctx.tokens, ctx.size)
						s.bench(b, 0.09)
					})
				}
			}
		}
	}
}

// BenchmarkPrefill runs 48 queries over a chunk of the context. It reports
// nanoseconds per query and cell.
func BenchmarkPrefill(b *testing.B) {
	for _, dim := range []int{64, 128, 256} {
		for _, t := range []string{"f16", "q8_0", "turbo4", "turbo3", "gw3"} {
			b.Run(fmt.Sprintf("d%d/%s", dim, t), func(b *testing.B) {
				const queries = 48
				s := newStepBench(b, t, t, dim, queries, 512, 0)
				best := time.Duration(math.MaxInt64)
				for b.Loop() {
					start := time.Now()
					s.run(0, 0.09)
					best = min(best, time.Since(start))
				}
				pairs := float64(queries * 512)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pairs, "ns/pair")
				b.ReportMetric(float64(best.Nanoseconds())/pairs, "best-ns/pair")
				b.ReportMetric(float64(4*dim)*pairs/float64(best.Nanoseconds()), "best-Gop/s")
			})
		}
	}
}
