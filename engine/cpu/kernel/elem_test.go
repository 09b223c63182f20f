package kernel

import (
	"fmt"
	"math"
	"testing"

	"godwit/engine/dtype"
)

// unaryOps are the functions of one value, with the real function and the
// allowed error. The error is the sum of three parts: ulp units in the last
// place of the result; one more unit for each unit of slope(x), which is the
// effect of rounding the exponent's argument; and lost·max(1, |x|), for
// exponentials outside the range of float32 (above 2¹²⁸ the inverse is 0, below
// 2⁻¹²⁶ there are fewer bits).
var unaryOps = []struct {
	name  string
	f     func(dst, x []float32)
	g     func(float32) float32
	real  func(float64) float64
	ulp   float64
	slope func(float64) float64
	lost  float64
}{
	{"exp", Exp, exp, math.Exp, 1, none, 0},
	{"sigmoid", Sigmoid, sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 3, none, 0x1p-128},
	{"silu", SiLU, silu, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, 3, none, 0x1p-128},
	{"gelu", GELU, gelu, func(x float64) float64 {
		return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}, 3, func(x float64) float64 { return 3 * math.Abs(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)) }, 0x1p-128},
	{"gelu-erf", GELUErf, geluErf, func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, 6, none, 0x1p-149},
	{
		"gelu-quick", GELUQuick, geluQuick, func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) }, 3,
		func(x float64) float64 { return 2 * math.Abs(1.702*x) }, 0x1p-128,
	},
	{"relu", ReLU, relu, func(x float64) float64 { return math.Max(x, 0) }, 0, none, 0},
	{"relu2", ReLU2, relu2, func(x float64) float64 { return math.Max(x, 0) * math.Max(x, 0) }, 1, none, 0},
	{"softplus", Softplus, softplus, func(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }, 3, none, 0},
	{"tanh", func(dst, x []float32) { Softcap(dst, x, 1) }, tanh, math.Tanh, 3, none, 0},
}

func none(float64) float64 { return 0 }

// sample returns float32 values from the whole range: about every 2¹¹-th bit
// pattern, or every 2¹⁵-th in short tests, and the special values.
func sample() []float32 {
	var x []float32
	step := 2039
	if testing.Short() {
		step = 32749
	}
	for b := 0; b < 1<<32; b += step {
		x = append(x, math.Float32frombits(uint32(b)))
	}
	inf := float32(math.Inf(1))
	return append(x, 0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 88.7, -103.9, 1e-45, -1e-45)
}

// ulp returns the distance between neighbours of f, which is at least that of the smallest normal
// number.
func ulp(f float64) float64 {
	_, e := math.Frexp(f)
	return math.Ldexp(1, max(e, -125)-24)
}

func TestUnaryAccuracy(t *testing.T) {
	x := sample()
	for _, op := range unaryOps {
		worst := 0.0
		for _, v := range x {
			got, want := op.g(v), op.real(float64(v))
			if v != v || math.IsNaN(want) || math.Abs(want) > math.MaxFloat32 || math.IsInf(float64(v), 0) {
				continue
			}
			err := math.Abs(float64(got)-want) / ulp(want)
			more := op.slope(float64(v)) + op.lost*math.Max(1, math.Abs(float64(v)))/ulp(want)
			limit := op.ulp + more
			worst = max(worst, err-more)
			if !(err <= limit) {
				t.Errorf("%s(%g) = %g, want %g: %.2f ulp, limit %.2f", op.name, v, got, want, err, limit)
				break
			}
		}
		t.Logf("%s: %.2f ulp", op.name, worst)
	}
}

func TestUnarySpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name    string
		f       func(float32) float32
		in, out float32
	}{
		{"exp", exp, inf, inf},
		{"exp", exp, -inf, 0},
		{"exp", exp, 0, 1},
		{"exp", exp, 1e30, inf},
		{"sigmoid", sigmoid, inf, 1},
		{"sigmoid", sigmoid, -inf, 0},
		{"sigmoid", sigmoid, 0, 0.5},
		{"silu", silu, inf, inf},
		{"gelu", gelu, inf, inf},
		{"gelu", gelu, 1e20, 1e20},
		{"gelu-erf", geluErf, inf, inf},
		{"gelu-erf", geluErf, -inf, 0},
		{"softplus", softplus, inf, inf},
		{"softplus", softplus, -inf, 0},
		{"tanh", tanh, inf, 1},
		{"tanh", tanh, -inf, -1},
		{"tanh", tanh, 1e-30, 1e-30},
		{"relu", relu, -inf, 0},
	} {
		if got := c.f(c.in); got != c.out {
			t.Errorf("%s(%g) = %g, want %g", c.name, c.in, got, c.out)
		}
	}
	for _, op := range unaryOps {
		if v := op.g(float32(math.NaN())); v == v {
			t.Errorf("%s(NaN) = %g", op.name, v)
		}
	}
}

// Every tier gives the same bits as plain Go, for every length of the last
// vector.
func TestUnaryBits(t *testing.T) {
	x := sample()
	want := make([]float32, len(x))
	for _, op := range unaryOps {
		for i, v := range x {
			want[i] = op.g(v)
		}
		eachTier(t, func(t *testing.T) {
			got := make([]float32, len(x))
			op.f(got, x)
			sameBits(t, op.name, got, want)
			for n := range 70 {
				got := make([]float32, n+1)
				op.f(got[:n], x[1000:1000+n])
				sameBits(t, op.name, got[:n], want[1000:1000+n])
				if got[n] != 0 {
					t.Fatalf("%s of %d values writes one more", op.name, n)
				}
			}
		})
	}
}

func TestElementBits(t *testing.T) {
	r := rnd(6)
	a, b, c, d := gauss(r, 100), gauss(r, 100), gauss(r, 100), gauss(r, 100)
	ops := map[string][2]func(dst []float32, n int){
		"silu-mul": {func(dst []float32, n int) { SiLUMul(dst, a[:n], b[:n]) }, func(dst []float32, n int) { siluMulsGeneric(dst, a[:n], b[:n]) }},
		"gelu-mul": {func(dst []float32, n int) { GELUMul(dst, a[:n], b[:n]) }, func(dst []float32, n int) { geluMulsGeneric(dst, a[:n], b[:n]) }},
		"add":      {func(dst []float32, n int) { Add(dst, a[:n], b[:n]) }, func(dst []float32, n int) { addGeneric(dst, a[:n], b[:n]) }},
		"mul":      {func(dst []float32, n int) { Mul(dst, a[:n], b[:n]) }, func(dst []float32, n int) { mulGeneric(dst, a[:n], b[:n]) }},
		"scale":    {func(dst []float32, n int) { Scale(dst, a[:n], 1.7) }, func(dst []float32, n int) { scaleGeneric(dst, a[:n], 1.7) }},
		"softcap":  {func(dst []float32, n int) { Softcap(dst, a[:n], 0.3) }, func(dst []float32, n int) { softCapGeneric(dst, a[:n], 0.3) }},
		"axpy": {
			func(dst []float32, n int) { copy(dst, b); Axpy(dst, a[:n], 1.7) },
			func(dst []float32, n int) { copy(dst, b); axpyGeneric(dst, a[:n], 1.7) },
		},
		"rms":   {func(dst []float32, n int) { RMSNorm(dst, a[:n], b[:n], 1e-6) }, func(dst []float32, n int) { plainRMS(dst, a[:n], b[:n], 1e-6) }},
		"layer": {func(dst []float32, n int) { LayerNorm(dst, a[:n], b[:n], c[:n], 1e-6) }, func(dst []float32, n int) { plainLayer(dst, a[:n], b[:n], c[:n], 1e-6) }},
		"sums": {
			func(dst []float32, n int) {
				s := make([]float32, n+1)
				copy(s, a[:n])
				put(dst, Dot(a[:n], b[:n]), Sum(a[:n]), Max(a[:n]), ExpSum(s[:n], a[:n], 0.3), s[n])
			},
			func(dst []float32, n int) {
				put(dst, dotGeneric(a[:n], b[:n]), sumGeneric(a[:n]), maxGeneric(a[:n]), expSumGeneric(make([]float32, n), a[:n], 0.3), 0)
			},
		},
		"rope": {
			func(dst []float32, n int) {
				n &^= 1
				copy(dst, a)
				Rope(dst[:n], c[:n/2], d[:n/2], false)
				Rope(dst[:n], c[:n/2], d[:n/2], true)
			},
			func(dst []float32, n int) {
				n &^= 1
				copy(dst, a)
				ropeHalvesGeneric(dst[:n/2], dst[n/2:n], c[:n/2], d[:n/2])
				ropePairsGeneric(dst[:n], c[:n/2], d[:n/2])
			},
		},
		"add-rms": {
			func(dst []float32, n int) { AddRMSNorm(dst, make([]float32, n), a[:n], b[:n], c[:n], 1e-6) },
			func(dst []float32, n int) {
				s := make([]float32, n)
				addGeneric(s, a[:n], b[:n])
				plainRMS(dst, s, c[:n], 1e-6)
			},
		},
	}
	for name, op := range ops {
		for n := 1; n < 100; n++ {
			want := make([]float32, n)
			op[1](want, n)
			eachTier(t, func(t *testing.T) {
				got := make([]float32, n)
				op[0](got, n)
				sameBits(t, fmt.Sprintf("%s of %d", name, n), got, want)
			})
		}
	}
}

func put(dst []float32, v ...float32) { copy(dst, v) }

func plainRMS(dst, x, w []float32, eps float32) {
	s := float32(1 / math.Sqrt(float64(dotGeneric(x, x))/float64(len(x))+float64(eps)))
	scaleMulGeneric(dst, x, w, s)
}

func plainLayer(dst, x, w, b []float32, eps float32) {
	sq := centreGeneric(dst, x, sumGeneric(x)/float32(len(x)))
	s := float32(1 / math.Sqrt(float64(sq)/float64(len(x))+float64(eps)))
	scaleMulGeneric(dst, dst, w, s)
	addGeneric(dst, dst, b)
}

func TestConvert(t *testing.T) {
	x := sample()
	half := make([]uint16, 1<<16)
	for i := range half {
		half[i] = uint16(i)
	}
	eachTier(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			to   func([]uint16, []float32)
			from func([]float32, []uint16)
			down func(float32) uint16
			up   func(uint16) float32
		}{
			{"f16", ToF16, FromF16, dtype.F32ToF16, dtype.F16ToF32},
			{"bf16", ToBF16, FromBF16, dtype.F32ToBF16, dtype.BF16ToF32},
		} {
			narrow := make([]uint16, len(x))
			c.to(narrow, x)
			for i, v := range x {
				if narrow[i] != c.down(v) {
					t.Fatalf("%s of %g (%08x) is %04x, want %04x", c.name, v, math.Float32bits(v), narrow[i], c.down(v))
				}
			}
			wide := make([]float32, len(half))
			c.from(wide, half)
			for i, h := range half {
				if v := c.up(h); math.Float32bits(wide[i]) != math.Float32bits(v) && v == v {
					t.Fatalf("%s %04x is %g, want %g", c.name, h, wide[i], v)
				}
			}
			for n := range 40 {
				c.to(narrow[:n], x[5000:5000+n])
				c.from(wide[:n], half[15000:15000+n])
				for i := range n {
					if narrow[i] != c.down(x[5000+i]) || wide[i] != c.up(half[15000+i]) {
						t.Fatalf("%s: value %d of %d", c.name, i, n)
					}
				}
			}
		}
	})
}

func TestArgMax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	eachTier(t, func(t *testing.T) {
		for _, c := range []struct {
			x    []float32
			want int
		}{
			{nil, 0}, {[]float32{nan}, 0}, {[]float32{nan, inf, -3, nan}, 2}, {[]float32{inf, inf}, 0}, {[]float32{1, 2, 2}, 1},
		} {
			if got := ArgMax(c.x); got != c.want {
				t.Errorf("%v: %d, want %d", c.x, got, c.want)
			}
		}
		for n := 1; n < 70; n++ {
			for at := range n {
				x := make([]float32, n)
				for i := range x {
					x[i] = -float32(i%7) - 2
				}
				x[at] = -1
				if n > 3 && at > 2 {
					x[1] = nan
				}
				if got := ArgMax(x); got != at {
					t.Fatalf("%d of %d: %d", at, n, got)
				}
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	inf := float32(math.Inf(-1))
	eachTier(t, func(t *testing.T) {
		x := append(gauss(rnd(7), 50), inf, inf)
		y := make([]float32, len(x))
		Softmax(y, x)
		total := 0.0
		for _, v := range x {
			total += math.Exp(float64(v))
		}
		for i, v := range x {
			// The exponential, its argument, the sum and two products are each rounded once. The
			// argument is below 8.
			if want := math.Exp(float64(v)) / total; math.Abs(float64(y[i])-want) > 16*ulp(want) {
				t.Errorf("%d: %g, want %g", i, y[i], want)
			}
		}
	})
}

// Any activations give the same bits as plain Go in every tier, and codes
// within half a step.
func TestQuantizeBits(t *testing.T) {
	r := rnd(8)
	special := []float32{0, 1e-45, -1e-38, 1.9e-34, 1.95e-34, 1e38, 3.4e38, float32(math.Inf(1)), float32(math.NaN())}
	eachTier(t, func(t *testing.T) {
		for try := range 400 {
			x := gauss(r, 96)
			s := float32(math.Exp(r.NormFloat64() * 20))
			for i := range x {
				x[i] *= s
			}
			if try%3 == 0 {
				clear(x[32:64])
				x[40] = special[try%len(special)]
			}
			a := NewActs(1, 96)
			a.Quantize(0, x)
			want := make([]actBlock, 3)
			quantizeGeneric(want, x)
			for i, b := range a.row(0) {
				if b.q != want[i].q || b.off != want[i].off || b.neg != want[i].neg {
					t.Fatalf("block %d of %v: %v, want %v", i, x, b, want[i])
				}
				sameBits(t, "scales", []float32{b.d, b.s}, []float32{want[i].d, want[i].s})
				checkBlock(t, &b, x[32*i:32*i+32])
			}
		}
	})
}

// checkBlock checks that a block is within its error bound: half a step, and
// the rounding of x·(actTop/amax), which is at most two units in the last place
// of actTop.
func checkBlock(t *testing.T, b *actBlock, x []float32) {
	t.Helper()
	if b.d != b.d {
		return
	}
	half := float64(b.d) * (0.5 + 2*actTop*0x1p-23)
	if b.d == 0 {
		half = 0x1p-112
	}
	for i, v := range x {
		if err := math.Abs(float64(b.d)*float64(b.q.at(i)) - float64(v)); err > half {
			t.Fatalf("%g is coded %d · %g: off by %g of %g", v, b.q.at(i), b.d, err, half)
		}
	}
}
