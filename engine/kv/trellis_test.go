package kv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bit is bit i of a cyclic string.
func bit(s []byte, i int) int {
	i %= 8 * len(s)
	return int(s[i/8] >> (i % 8) & 1)
}

// A window is the eight bits from bit Bits·i of a cyclic string, and putting
// windows back restores the string.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, width := range []int{2, 3, 4} {
		for _, n := range []int{32, 64, 128, 256} {
			s := make([]byte, n*width/8)
			for i := range s {
				s[i] = byte(r.Uint32())
			}
			w := make([]byte, n)
			windows(w, s, width)
			for i, got := range w {
				want := 0
				for j := range 8 {
					want |= bit(s, width*i+j) << j
				}
				if int(got) != want {
					t.Fatalf("%d bits, %d values: window %d is %02x, want %02x", width, n, i, got, want)
				}
			}
			again := make([]byte, len(s))
			putWindows(again, w, width)
			if string(again) != string(s) {
				t.Fatalf("%d bits, %d values: string not restored", width, n)
			}
		}
	}
}

// gwBlocks returns the simple forms of the gw family.
func gwBlocks() (list []encoding) {
	for _, t := range []*Type{GW2, GW3, GW4} {
		for _, b := range t.Cut.blocks {
			list = append(list, encoding{Type: b, dim: b.Elems})
		}
	}
	return list
}

// On Gaussian rows, the mean square error is between the theoretical limit, a
// quarter per bit, and that of the best codebook of single values (Max 1960, table
// 1). The scale preserves the projection.
func TestTrellisDistortion(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	scalar := map[int]float64{2: 0.1175, 3: 0.03454, 4: 0.009497}
	for _, e := range gwBlocks() {
		var sum float64
		const rows = 400
		for range rows {
			x := gauss(r, e.dim, 3)
			row, _ := e.encode(x)
			var err, norm, dot float64
			for i, v := range e.decode(row) {
				err += float64(v-x[i]) * float64(v-x[i])
				norm += float64(x[i]) * float64(x[i])
				dot += float64(v) * float64(x[i])
			}
			sum += err / norm
			if math.Abs(dot/norm-1) > 1.0/1024 { // the rounding of the scale
				t.Fatalf("%s %d: projection %g", e.Name, e.dim, dot/norm)
			}
		}
		d := sum / rows
		t.Logf("%s %d: %.5f, %.2f dB", e.Name, e.dim, d, -10*math.Log10(d))
		if low := math.Pow(4, -float64(e.Codes.Bits)); d < low || d > 0.85*scalar[e.Codes.Bits] {
			t.Errorf("%s %d: relative error %.5f, between %.5f and %.5f expected", e.Name, e.dim, d, low, scalar[e.Codes.Bits])
		}
	}
}

func BenchmarkTrellis(b *testing.B) {
	r := rand.New(rand.NewPCG(23, 24))
	for _, e := range gwBlocks() {
		b.Run(fmt.Sprintf("%s/%d", e.Name, e.dim), func(b *testing.B) {
			x, row := gauss(r, e.dim, 3), make([]byte, e.Bytes)
			for b.Loop() {
				e.Encode(row, x, At{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*e.dim), "ns/value")
		})
	}
}

// Heads are divided into the largest blocks that fit, and a rest under 32 is
// padded. The bytes are those of the spec.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		dim    int
		blocks []int
		bytes  [3]int
	}{
		{32, []int{32}, [3]int{10, 14, 18}},
		{64, []int{64}, [3]int{18, 26, 34}},
		{128, []int{128}, [3]int{34, 50, 66}},
		{256, []int{256}, [3]int{66, 98, 130}},
		{512, []int{256, 256}, [3]int{132, 196, 260}},
		{96, []int{64, 32}, [3]int{28, 40, 52}},
		{192, []int{128, 64}, [3]int{52, 76, 100}},
		{576, []int{256, 256, 64}, [3]int{150, 222, 294}},
		{40, []int{32, 32}, [3]int{20, 28, 36}},
		{80, []int{64, 32}, [3]int{28, 40, 52}},
		{112, []int{64, 32, 32}, [3]int{38, 54, 70}},
		{1, []int{32}, [3]int{10, 14, 18}},
	} {
		for i, typ := range []*Type{GW2, GW3, GW4} {
			fit := typ.Fit(c.dim, K)
			form, reason := fit.Form, fit.Reason
			if again := typ.Form(c.dim, V); again != form {
				t.Errorf("%s %d: another form each time", typ.Name, c.dim)
			}
			var blocks []int
			for _, g := range form.Segments(c.dim) {
				blocks = append(blocks, g.Form.Elems)
			}
			if !slices.Equal(blocks, c.blocks) || form.RowBytes(c.dim) != c.bytes[i] {
				t.Errorf("%s %d: blocks %v of %d bytes, want %v and %d", typ.Name, c.dim, blocks, form.RowBytes(c.dim), c.blocks, c.bytes[i])
			}
			if padded := form.Padded(c.dim) != c.dim; padded != (reason != "") || form.Name != typ.Name {
				t.Errorf("%s %d: %s, reason %q", typ.Name, c.dim, form.Name, reason)
			}
		}
	}
}

// Calibrated channels are restored, within the format's error relative to each
// channel's size. A query scores them without the mean.
func TestChannels(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	for _, dim := range []int{64, 96, 128} {
		form := GW4.Form(dim, K)
		c := &Channels{Mean: gauss(r, dim, 10), Gain: make([]float32, dim)}
		for i := range c.Gain {
			c.Gain[i] = float32(math.Exp(r.NormFloat64()))
		}
		if !c.Fits(dim) || c.Fits(dim+1) {
			t.Fatal("fits")
		}
		x, row, got := make([]float32, dim), make([]byte, form.RowBytes(dim)), make([]float32, dim)
		var err float64
		for range 50 {
			for i := range x {
				x[i] = c.Mean[i] + float32(r.NormFloat64())/c.Gain[i]
			}
			form.Encode(row, x, At{Channels: c})
			form.Decode(got, row, At{Channels: c})
			for i, v := range got {
				d := float64(v-x[i]) * float64(c.Gain[i])
				err += d * d / float64(50*dim)
			}
		}
		if err > 0.009 {
			t.Errorf("head %d: error %.4f of the channels' own variance", dim, err)
		}
		q := gauss(r, dim, 1)
		for i, g := range c.Gain {
			q[i] /= g
		}
		rot := make([]float32, form.Padded(dim))
		form.RotateQuery(rot, nil, q)
		var want float64
		for i, v := range got {
			want += float64(q[i]*c.Gain[i]) * float64(v-c.Mean[i])
		}
		if s := form.Score(rot, nil, row); math.Abs(float64(s)-want) > 1e-4 {
			t.Errorf("head %d: score %g, want %g", dim, s, want)
		}
	}
}

// The encoder finds the cheapest cyclic path: on short blocks, no other string that
// differs in a few bits is closer.
func TestTrellisIsNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, typ := range []*Type{GW2, GW3, GW4} {
		c := typ.Form(32, K).Codes
		worse, tried := 0, 0
		z, w, s, v := make([]int16, 32), make([]byte, 32), make([]byte, 4*c.Bits), make([]byte, 32)
		cost := func(w []byte) (sum int) {
			for i, x := range w {
				d := int(z[i]) - int(c.Trellis.Table[x])
				sum += min(d*d, trellisFar*trellisFar)
			}
			return sum
		}
		for range 100 {
			for i := range z {
				z[i] = int16(min(max(r.NormFloat64()*2/float64(typ.Form(32, K).Scale.Unit), -TrellisReach), TrellisReach))
			}
			c.Trellis.Encode(w, z)
			best := cost(w)
			putWindows(s, w, c.Bits)
			windows(v, s, c.Bits)
			if !slices.Equal(v, w) {
				t.Fatalf("%s: windows do not overlap: % x", typ.Name, w)
			}
			for a := range 8 * len(s) {
				for b := a; b < min(a+12, 8*len(s)); b++ {
					s[a/8] ^= 1 << (a % 8)
					if a != b {
						s[b/8] ^= 1 << (b % 8)
					}
					windows(v, s, c.Bits)
					tried++
					if cost(v) < best {
						worse++
					}
					if a != b {
						s[b/8] ^= 1 << (b % 8)
					}
					s[a/8] ^= 1 << (a % 8)
				}
			}
		}
		if worse*1000 > tried { // the seam is decided only by the values near it
			t.Errorf("%s: %d of %d changes of two bits were nearer", typ.Name, worse, tried)
		}
	}
}
