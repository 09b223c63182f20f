package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
	"godwit/engine/kv"
)

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// halves returns n f16 values. If signed, some are negative.
func halves(rng *rand.Rand, n int, signed bool) []byte {
	var b []byte
	for range n {
		v := math.Abs(rng.NormFloat64())
		if signed && rng.IntN(4) == 0 {
			v = -v
		}
		h := dtype.F32ToF16(float32(v))
		b = append(b, byte(h), byte(h>>8))
	}
	return b
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %g (%x), plain Go says %g (%x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// The integer kernels give the same bits as plain Go.
func TestCodeKernels(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 4))
		table := (*[64]byte)(randomBytes(rng, 64))
		for _, bits := range []int{1, 2, 3, 4, 5} {
			low, steps := max(1, bits&^1), 72
			for i := range table {
				table[i] = table[i%(1<<bits)]
			}
			l, h := randomBytes(rng, steps*8*low), randomBytes(rng, steps*8)
			if low == bits {
				h = nil
			}
			got, want := make([]byte, 64*steps), make([]byte, 64*steps)
			expand(got, l, h, low, table, steps, 0)
			expandGeneric(want, l, h, low, table, steps)
			if !bytes.Equal(got, want) {
				t.Errorf("expand of %d bits differs", bits)
			}
		}
		for _, vecs := range []int{2, 4} {
			codes := randomBytes(rng, 1024*vecs)
			got, want := make([]byte, 1024*vecs), make([]byte, 1024*vecs)
			transpose(got, codes, vecs, 0x80)
			transposeGeneric(want, codes, vecs, 0x80)
			if !bytes.Equal(got, want) {
				t.Errorf("turn of %d differs", vecs)
			}
			for _, l := range []*levels{{exact: true}, {exact: true, zero: 128}, {float: [16]float32(random(rng, 16))}} {
				got, want := make([]byte, 4096*vecs), make([]byte, 4096*vecs)
				decode(got, codes, 16, vecs, l)
				decodeGeneric(want, codes, 16, vecs, l)
				if !bytes.Equal(got, want) {
					t.Errorf("decode of %d, %+v, differs", vecs, l)
				}
			}
		}
	})
}

func TestTransposeFloats(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(14, 14))
		for _, stored := range []dtype.Type{dtype.F32, dtype.F16, dtype.BF16} {
			for _, width := range []int{8, 40, 64} {
				x := halves(rng, width*Cells*2, true) // the bits may have any meaning
				got, want := make([]byte, 256*width), make([]byte, 256*width)
				transposeFloats(got, x, width, stored)
				transposeFloatsGeneric(want, x, width, stored)
				if !bytes.Equal(got, want) {
					t.Errorf("%v of %d values differs", stored, width)
				}
			}
		}
	})
}

func TestDotKernels(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 5))
		for n := 1; n <= 2*panel; n++ {
			for _, shape := range [][2]int{{32, 1}, {96, 3}, {64, 1}, {128, 1}, {512, 2}} {
				values, blocks := shape[0], shape[1]
				per := 1 + n%2
				q := newOperand(n, values, blocks, per)
				for i := range n * per {
					q.set(i, random(rng, values), 0.7, 128, nil)
				}
				tile, scales := randomBytes(rng, values*Cells), halves(rng, blocks*Cells, true)
				got := random(rng, n*Cells)
				want := slices.Clone(got)
				dotTokensAll(got, n, tile, &q, scales, 64*(n%2))
				for i := 0; i < n*per; i += panel {
					dotTokensGeneric(&dotTokensArgs{dst: want[i/per*Cells:], n: min(panel, n*per-i), tile: tile, q: &q, group: i / panel, scales: scales})
				}
				same(t, "scores", got, want)
			}
			if n > panel {
				continue
			}
			for _, vecs := range []int{2, 4} {
				var w [panel][Cells]uint8
				for i := range w {
					w[i] = [Cells]uint8(randomBytes(rng, Cells))
				}
				scale := [panel]float32(random(rng, panel))
				got := random(rng, n*100)
				want := slices.Clone(got)
				a := dotValuesArgs{acc: got, ld: 100, n: n, tile: randomBytes(rng, 1024*vecs), vecs: vecs, w: &w, scale: &scale, groups: 0xfa31}
				dotValues(&a)
				a.acc = want
				dotValuesGeneric(&a)
				same(t, "values", got, want)
			}
		}
	})
}

// Kernels that read planes give the same bits as expanding first.
func TestPlaneKernels(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(8, 8))
		const values, blocks = 128, 2
		for bits := 2; bits <= 4; bits++ {
			table := (*[64]byte)(randomBytes(rng, 64))
			for i := range table {
				table[i] = table[i%(1<<bits)]
			}
			low := bits &^ 1
			p := planes{low: randomBytes(rng, values*8*low), bits: bits, table: table}
			if bits == 3 {
				p.high = randomBytes(rng, values*8)
			}
			tile := make([]byte, values*Cells)
			expandGeneric(tile, p.low, p.high, low, table, values)
			for n := 1; n <= panel && p.reads(n); n++ {
				q := newOperand(n, values, blocks, 1)
				for i := range n {
					q.set(i, random(rng, values), 0.7, 128, nil)
				}
				a := dotTokensArgs{dst: random(rng, n*Cells), n: n, planes: p, q: &q, scales: halves(rng, blocks*Cells, true)}
				b := a
				b.dst, b.tile = slices.Clone(a.dst), tile
				dotTokens(&a)
				dotTokensGeneric(&b)
				same(t, "scores", a.dst, b.dst)
				for _, vecs := range []int{2, 4} {
					var w [panel][Cells]uint8
					for i := range w {
						w[i] = [Cells]uint8(randomBytes(rng, Cells))
					}
					scale := [panel]float32(random(rng, panel))
					groups := uint64(0xf031)
					for i := range w {
						for t := range Cells {
							if groups>>(t/4)&1 == 0 {
								w[i][t] = 0
							}
						}
					}
					a := dotValuesArgs{acc: random(rng, n*100), ld: 100, n: n, planes: p, first: 64, vecs: vecs, w: &w, scale: &scale, groups: groups}
					b := a
					b.acc, b.tile = slices.Clone(a.acc), tile[64*Cells:]
					dotValues(&a)
					dotValuesGeneric(&b)
					same(t, "values", a.acc, b.acc)
				}
			}
		}
	})
}

// Integer arithmetic over several pages at once gives the same bits as plain Go
// over one page at a time. Some pages have negative scales and some have no
// weights.
func TestRuns(t *testing.T) {
	was := kernel.Active()
	defer use(t, was)
	for _, name := range []string{"q8_0", "q4_0", "q5_1", "turbo2", "turbo3", "turbo4", "tbq3", "tbqp3", "gw2", "gw3", "gw4"} {
		for _, dim := range []int{32, 40, 64, 96, 128, 256} {
			for _, side := range bothSides {
				typ, err := kv.Parse(name)
				if err != nil {
					t.Fatal(err)
				}
				form := typ.Fit(dim, side).Form
				f := New(form, dim, Options{Side: side})
				if slices.ContainsFunc(f.segments, func(p segment) bool { _, ok := p.(*floats); return ok }) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%v", name, dim, side), func(t *testing.T) { testRuns(t, f) })
			}
		}
	}
}

func use(t *testing.T, tier kernel.Tier) {
	t.Helper()
	if err := kernel.Use(tier); err != nil {
		t.Fatal(err)
	}
}

func testRuns(t *testing.T, f *Form) {
	const pages, most = 4, 9
	rng := rand.New(rand.NewPCG(15, uint64(f.HeadDim)))
	visits := make([]Visit, pages)
	for i := range visits {
		page, _, _ := pageOf(rng, f, Cells)
		for _, p := range f.segments {
			if c, ok := p.(*codes); ok && i == 2 { // in any of the blocks
				page.Read[c.scale+2*rng.IntN(Cells*c.Blocks)+1] ^= 0x80
			}
		}
		visits[i] = Visit{Page: page.Read, At: (pages - 1 - i) * most * Cells, Cells: Cells, Used: rng.Uint64() & rng.Uint64()}
		if i > 0 {
			visits[i-1].Ahead = Distance(visits[i-1].Page, page.Read)
		}
	}
	visits[1].Used = 0
	w, acc := make([]float32, pages*most*Cells), random(rng, most*f.Padded)
	for _, v := range visits {
		for i := range most * Cells {
			if v.Used>>(i%Cells)&1 == 1 {
				w[v.At+i] = rng.Float32()
			}
		}
	}
	var q *Queries
	if f.Options.Side == kv.K {
		q = f.NewQueries(most)
		for i := range most {
			q.Set(i, random(rng, f.HeadDim))
		}
	}
	run := func(tier kernel.Tier, n int) (scores, sums []float32) {
		use(t, tier)
		scores, sums = make([]float32, len(w)), slices.Clone(acc)
		s := NewScratch(f)
		if q != nil {
			q.N = n
			list := slices.Clone(visits)
			for i := range list {
				list[i].At = i * n * Cells
			}
			f.Scores(scores, q, list, s)
		}
		f.Accumulate(sums, w, n, visits, s)
		return scores, sums
	}
	for n := 1; n <= most; n++ {
		wantScores, wantSums := run(kernel.Generic, n)
		for _, tier := range kernel.Tiers() {
			scores, sums := run(tier, n)
			same(t, fmt.Sprintf("%v, scores of %d queries", tier, n), scores, wantScores)
			same(t, fmt.Sprintf("%v, sums of %d rows", tier, n), sums, wantSums)
		}
	}
}

func TestWeightKernels(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(6, 6))
		inf := float32(math.Inf(1))
		for try := range 200 {
			const pages, stride = 3, 80
			s := random(rng, pages*stride)
			for i := range s {
				s[i] *= float32(try)
			}
			if try%4 == 1 {
				s[rng.IntN(Cells)], s[rng.IntN(Cells)], s[rng.IntN(Cells)] = inf, -inf, inf-inf
			}
			visible := []uint64{rng.Uint64() >> rng.IntN(64), ^uint64(0), 0}
			top, tau := []float32{-inf, -3, 40}[try%3], []float32{0, 1e-6, 0.1}[try/3%3]
			got, want := slices.Clone(s), slices.Clone(s)
			kept1, kept2 := make([]uint64, pages), make([]uint64, pages)
			top1 := Logits(got, stride, 0.3, visible, top)
			top2 := logitsGeneric(want, stride, 0.3, visible, top)
			same(t, "logits", got, want)
			if top1 != top2 { // zeros of either sign are equal
				t.Fatalf("largest logit %g, plain Go says %g", top1, top2)
			}
			sum1 := Weights(got, stride, visible, top1, tau, kept1)
			sum2 := weightsGeneric(want, stride, visible, top2, tau, kept2)
			same(t, "weights", got, want)
			same(t, "sum", []float32{sum1}, []float32{sum2})
			if !slices.Equal(kept1, kept2) {
				t.Fatalf("kept %x, plain Go says %x", kept1, kept2)
			}
			if !(sum1 >= 0 && sum1 <= pages*Cells) {
				t.Fatalf("sum of weights %g", sum1)
			}
			scales := halves(rng, Cells, try%2 == 1)
			if try%8 == 3 {
				copy(scales[2*rng.IntN(Cells):], []byte{0, 0x7c}) // infinity
				copy(scales[2*rng.IntN(Cells):], []byte{1, 0x7c}) // NaN
			}
			for _, sign := range []float32{1, -1} {
				rows := random(rng, 3*Cells)
				copy(rows[Cells:], got[:Cells])
				clear(rows[2*Cells:])
				var a, b [panel][Cells]uint8
				var amax1, amax2 [panel]float32
				signed1 := roundWeights(&a, rows, 3, scales, sign, &amax1)
				signed2 := roundWeightsGeneric(&b, rows, 3, scales, sign, &amax2)
				same(t, "largest weights", amax1[:], amax2[:])
				if a != b || signed1 != signed2 && try%8 != 3 {
					t.Fatalf("weights %v %v, plain Go says %v %v", a, signed1, b, signed2)
				}
			}
			got = random(rng, 3*Cells)
			w := random(rng, 3*Cells)
			w[5], w[70] = 0, 0
			want = slices.Clone(got)
			addHalf(got, scales, 0.3)
			addHalfGeneric(want, scales, 0.3)
			if try%8 == 3 {
				continue
			}
			same(t, "addHalf", got, want)
			addScaled(got, w, scales)
			addScaledGeneric(want, w, scales)
			same(t, "addScaled", got, want)
			mulHalf(got, w, scales)
			mulHalfGeneric(want, w, scales)
			same(t, "mulHalf", got, want)
			same(t, "dotHalf", []float32{dotHalf(w, scales)}, []float32{dotHalfGeneric(w, scales)})
		}
	})
}

// mulAdd may fuse multiplication and addition. Each of n steps is off by at
// most half a unit in the last place of the running sum and of the product.
func TestMulAdd(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 7))
		for _, stored := range []dtype.Type{dtype.F32, dtype.F16, dtype.BF16} {
			for _, finite := range []bool{false, true} {
				for n := 1; n <= panel; n++ {
					for _, lanes := range []int{1, 8, 16, 40, 63, 64} {
						testMulAdd(t, rng, stored, finite && stored != dtype.F16, n, lanes)
					}
				}
			}
		}
	})
}

func testMulAdd(t *testing.T, rng *rand.Rand, stored dtype.Type, finite bool, n, lanes int) {
	size := 2
	if stored == dtype.F32 {
		size = 4
	}
	a := mulAddArgs{
		ld: 70, n: n, lanes: lanes, pitch: lanes*size + 6, stored: stored, finite: finite,
		coef: random(rng, n*64), steps: rng.Uint64(),
	}
	for range 64 {
		row := make([]byte, a.pitch)
		for i := range lanes {
			v := float32(rng.NormFloat64())
			switch {
			case size == 4:
				putF32(row[4*i:], v)
			case stored == dtype.F16:
				h := dtype.F32ToF16(v)
				row[2*i], row[2*i+1] = byte(h), byte(h>>8)
			default:
				h := dtype.F32ToBF16(v)
				row[2*i], row[2*i+1] = byte(h), byte(h>>8)
			}
		}
		a.x = append(a.x, row...)
	}
	a.x = a.x[:63*a.pitch+lanes*size]
	got := random(rng, 70*n)
	want, abs := slices.Clone(got), slices.Clone(got)
	a.acc = got
	mulAdd(&a)
	a.acc = want
	mulAddGeneric(&a)
	b := a
	b.coef, b.x, b.acc = slices.Clone(a.coef), slices.Clone(a.x), abs
	for i := range b.coef {
		b.coef[i] = float32(math.Abs(float64(b.coef[i])))
	}
	for s := range 64 {
		for i := range lanes {
			b.x[s*a.pitch+(i+1)*size-1] &= 0x7f
		}
	}
	for i := range abs {
		abs[i] = float32(math.Abs(float64(abs[i])))
	}
	mulAddGeneric(&b)
	for i := range got {
		limit := float64(abs[i]) * 128 * 0x1p-24
		if i%70 >= lanes {
			limit = 0
		}
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= limit) {
			t.Fatalf("%v, %d rows of %d: value %d is %g, plain Go says %g, off by %g, at most %g", stored, n, lanes, i, got[i], want[i], d, limit)
		}
	}
}

// With finite set, an infinity counts as the largest value, and a step without
// weight adds nothing.
func TestMulAddFinite(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		x := make([]byte, 2*64*4)
		for i, v := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 2} {
			putF32(x[4*i:], v)
			putF32(x[256+4*i:], 1)
		}
		for _, c := range []float32{0, 0.5} {
			acc := make([]float32, 64)
			coef := make([]float32, 64)
			coef[0], coef[1] = c, 1
			mulAdd(&mulAddArgs{acc: acc, ld: 64, n: 1, lanes: 64, x: x, pitch: 256, finite: true, coef: coef, steps: 3})
			want := []float32{c*math.MaxFloat32 + 1, -c*math.MaxFloat32 + 1, c*math.MaxFloat32 + 1, 2*c + 1}
			same(t, "sums", acc[:4], want)
		}
	})
}
