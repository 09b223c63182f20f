package kv

import (
	"math"
	"math/rand/v2"
	"testing"
)

// moments are the moments of a codebook on the coordinates of a random unit
// vector of n values, scaled to unit variance. The density of a coordinate is
// (1 - x²/n)^((n-3)/2).
type moments struct{ xl, ll, l4 float64 } // E[x·l(x)], E[l(x)²], E[l(x)⁴]

// sphere integrates by the midpoint rule. unit is the size of the levels at unit
// variance.
func sphere(c *Codes, n int, unit float64) (m moments) {
	const steps = 1 << 18
	edge := math.Sqrt(float64(n))
	var mass float64
	for i := range steps {
		x := edge * (2*(float64(i)+0.5)/steps - 1)
		p := math.Pow(1-x*x/float64(n), float64(n-3)/2)
		l := float64(c.Levels[c.code(float32(x*unit))]) / unit
		mass += p
		m.xl += p * x * l
		m.ll += p * l * l
		m.l4 += p * l * l * l * l
	}
	return moments{m.xl / mass, m.ll / mass, m.l4 / mass}
}

// The mean square error of every codebook on Gaussian rows matches theory within
// five standard errors of the measurement. A corrected norm divides by the length
// of the levels. The variance of that length adds at most its relative variance
// to the error.
func TestDistortion(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, c := range []struct {
		form *Type
		dim  int
		unit float64
	}{
		{Turbo2, 128, 1 / math.Sqrt(128)},
		{Turbo3, 128, 1 / math.Sqrt(128)},
		{Turbo4, 128, 1 / math.Sqrt(128)},
		{OATurbo2, 128, 1 / math.Sqrt(128)},
		{OATurbo3, 128, 1 / math.Sqrt(128)},
		{named("tbq3_0"), 256, 1},
		{named("tbq4_0"), 256, 1},
		{named("tbq3_1"), 128, 1},
		{named("tbq4_1"), 128, 1},
		{named("tbq3_2"), 64, 1},
		{named("tbq4_2"), 64, 1},
		{named("tbq3_3"), 64, 1},
		{named("tbqp3_1"), 128, 1},
		{named("tbqp4_1"), 128, 1},
		{AMXV3, 128, 1},
	} {
		m := sphere(&c.form.Codes, c.dim, c.unit)
		want := 1 - 2*m.xl + m.ll // |x - l|² over |x|²
		slack := 0.0
		if c.form.Scale.Rule == CorrectedNorm {
			want = 2 - 2*m.xl/math.Sqrt(m.ll)
			slack = (m.l4 - m.ll*m.ll) / (m.ll * m.ll) / float64(c.dim)
		}
		const rows = 4000
		var sum, squares float64
		e := encoding{Type: c.form, dim: c.dim}
		for range rows {
			x := gauss(r, c.dim, 1)
			row, _ := e.encode(x)
			var err, norm float64
			for i, v := range e.decode(row) {
				err += float64(v-x[i]) * float64(v-x[i])
				norm += float64(x[i]) * float64(x[i])
			}
			sum += err / norm
			squares += err / norm * err / norm
		}
		mean := sum / rows
		standard := math.Sqrt((squares/rows - mean*mean) / rows)
		if math.Abs(mean-want) > 5*standard+slack {
			t.Errorf("%s: relative error %.5f, theory %.5f ± %.5f", c.form.Name, mean, want, 5*standard+slack)
		}
	}
}

// The error of formats with even steps is at most half a step, or a whole step
// where the top code clamps. The f16 scale adds its own rounding.
func TestStepBound(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, c := range []struct {
		form  *Type
		steps float64
	}{{Q8_0, 0.5}, {Q5_1, 0.5}, {Q5_0, 1}, {Q4_1, 0.5}, {Q4_0, 1}} {
		e := encoding{Type: c.form, dim: 256}
		for range 200 {
			x := gauss(r, 256, 5)
			row, _ := e.encode(x)
			got := e.decode(row)
			for i, v := range got {
				block := row[i/32*e.Bytes:]
				d := math.Abs(float64(f16At(block, e.Scale.At)))
				offset := 0.0
				if e.Scale.Affine {
					offset = math.Abs(float64(f16At(block, e.Scale.Min)))
				}
				top := float64(int(1) << e.Codes.Bits)
				bound := d*c.steps + (d*top+offset)/(1<<11)
				if diff := math.Abs(float64(v - x[i])); diff > bound {
					t.Fatalf("%s: %g for %g, off by %g of %g", e.Name, v, x[i], diff, bound)
				}
			}
		}
	}
}

// TestQJLByText checks tq3_0-qjl against its documentation: a rotation with
// tq3_0's signs, the largest magnitude at 1.51, the nearest of four levels, and
// the residual's signs in a plane that the reader ignores.
func TestQJLByText(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	e := encoding{Type: TQ3_0QJL, dim: 32}
	levels := []float64{-1.51, -0.453, 0.453, 1.51}
	const slack = 1.0 / (1 << 18) // binary32 rounding of a 32-value transform
	for range 200 {
		x := gauss(r, 32, 2)
		row, _ := e.encode(x)
		y := make([]float32, 32)
		for i, v := range x {
			y[i] = v * tq3Rotation.Pre[i]
		}
		orthonormal(y)
		var amax float64
		for _, v := range y {
			amax = max(amax, math.Abs(float64(v)))
		}
		d := amax / 1.51
		if got := float64(f16At(row, 12)); math.Abs(got-d) > d/(1<<10) {
			t.Fatalf("scale %g, want %g", got, d)
		}
		codes, bits := make([]uint8, 32), make([]uint8, 32)
		stream(codes, row, 2)
		stream(bits, row[8:], 1)
		for i, v := range y {
			z := float64(v) / d
			for k, l := range levels {
				if math.Abs(z-l) < math.Abs(z-levels[codes[i]])-slack {
					t.Fatalf("value %g has level %g though %g is nearer (%d)", z, levels[codes[i]], l, k)
				}
			}
			if rest := z - levels[codes[i]]; math.Abs(rest) > slack && (rest > 0) != (bits[i] == 1) {
				t.Fatalf("value %g: residual %g has bit %d", z, rest, bits[i])
			}
		}
		if e.HasResidual() {
			t.Fatal("the residual plane would be read")
		}
	}
}
