package quant_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/quant"

	"pgregory.net/rapid"
)

// gauss returns n unit Gaussian values, which are always the same for a seed.
func gauss(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, seed+1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// roundTrip encodes and decodes.
func roundTrip(t failer, typ dtype.Type, x, importance []float32) []float32 {
	t.Helper()
	b, y := make([]byte, typ.RowBytes(len(x))), make([]float32, len(x))
	if err := quant.Encode(typ, b, x, importance); err != nil {
		t.Fatal(err)
	}
	if err := quant.Decode(typ, y, b); err != nil {
		t.Fatal(err)
	}
	return y
}

// relative returns the root of Σ w(x-y)² / Σ wx².
func relative(x, y, w []float32) float64 {
	var e, n float64
	for i, f := range x {
		d, v := float64(f)-float64(y[i]), 1.0
		if w != nil {
			v = float64(w[i])
		}
		e += v * d * d
		n += v * float64(f) * float64(f)
	}
	return math.Sqrt(e / n)
}

// On Gaussian rows, the error is at most the error of ggml's quantiser on the
// same values, without importance and with an importance of ones. The figures
// are rounded to five digits; see testdata/README.md. IQ4_NL without importance
// uses the KV cache's one-pass rule, and so does ggml.
func TestGaussianError(t *testing.T) {
	x := gauss(1, 1<<18)
	for _, c := range []struct {
		typ             dtype.Type
		plain, weighted float64
	}{
		{dtype.Q8_0, 0.00535, 0.00535},
		{dtype.Q4_0, 0.08591, 0.08165},
		{dtype.Q4_1, 0.07805, 0.06973},
		{dtype.Q5_0, 0.04267, 0.04040},
		{dtype.Q5_1, 0.03784, 0.03375},
		{dtype.Q2_K, 0.29587, 0.26745},
		{dtype.Q3_K, 0.15075, 0.14447},
		{dtype.Q4_K, 0.07124, 0.07060},
		{dtype.Q5_K, 0.03609, 0.03527},
		{dtype.Q6_K, 0.01772, 0.01729},
		{dtype.IQ4_NL, 0.07861, 0.07486},
		{dtype.MXFP4, 0.11478, 0.11478},
	} {
		const digits = 0.5e-5
		if e := relative(x, roundTrip(t, c.typ, x, nil), nil); e > c.plain+digits {
			t.Errorf("%v: relative error %.5f, ggml %.5f", c.typ, e, c.plain)
		}
		if e := relative(x, roundTrip(t, c.typ, x, ones(len(x))), nil); e > c.weighted+digits {
			t.Errorf("%v with importance: relative error %.5f, ggml %.5f", c.typ, e, c.weighted)
		}
	}
}

// With a scale for every 16 values, a code book is no worse than the best fixed
// one, which is the Lloyd-Max quantiser of a unit Gaussian. Source of the mean
// square errors for 8 and 16 levels: J. Max 1960, table I.
func TestTQGaussianError(t *testing.T) {
	x := gauss(3, 1<<18)
	for typ, mse := range map[dtype.Type]float64{dtype.TQ3_1S: 0.03454, dtype.TQ4_1S: 0.009497} {
		e := relative(x, roundTrip(t, typ, x, nil), nil)
		if got := e * e; got > mse {
			t.Errorf("%v: mean-square error %.5f, Lloyd-Max %.5f", typ, got, mse)
		}
	}
}

// The matrices of the golden files are quantised at least as well as by ggml,
// measured with ggml's importance of ones.
func TestGoldenError(t *testing.T) {
	files := map[dtype.Type]*gguf.File{}
	for _, m := range readManifest(t) {
		typ, _ := dtype.Parse(m.Type)
		files[typ] = openGGUF(t, m)
	}
	for _, typ := range []dtype.Type{
		dtype.Q8_0, dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1, dtype.Q2_K, dtype.Q3_K,
		dtype.Q4_K, dtype.Q5_K, dtype.Q6_K, dtype.IQ4_NL, dtype.MXFP4,
	} {
		var x, theirs []float32
		for _, packed := range files[typ].Tensors {
			if packed.Type != typ {
				continue // a norm
			}
			plain, _ := files[dtype.F32].Tensor(packed.Name)
			x = append(x, decodeTensor(t, plain)...)
			theirs = append(theirs, decodeTensor(t, &packed)...)
		}
		ours := relative(x, roundTrip(t, typ, x, ones(len(x))), nil)
		if ref := relative(x, theirs, nil); ours > ref {
			t.Errorf("%v: relative error %.6f, ggml %.6f", typ, ours, ref)
		}
	}
}

func decodeTensor(t *testing.T, x *gguf.Tensor) []float32 {
	t.Helper()
	dst := make([]float32, x.Rows()*x.Shape[0])
	if err := quant.Decode(x.Type, dst, x.Data); err != nil {
		t.Fatal(err)
	}
	return dst
}

// Importance helps. The weighted error is lower than after a search with equal
// weights.
func TestImportance(t *testing.T) {
	x, w := gauss(5, 1<<15), gauss(6, 1<<15)
	for i, f := range w {
		w[i] = f * f // distributed like the mean square of activations
	}
	for _, typ := range []dtype.Type{
		dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1, dtype.Q2_K, dtype.Q3_K, dtype.Q4_K,
		dtype.Q5_K, dtype.Q6_K, dtype.IQ4_NL, dtype.MXFP4,
	} {
		with := relative(x, roundTrip(t, typ, x, w), w)
		without := relative(x, roundTrip(t, typ, x, ones(len(x))), w)
		if with >= without {
			t.Errorf("%v: weighted error %.5f with importance, %.5f without", typ, with, without)
		}
	}
}

// An importance of zeros has the same effect as one of ones.
func TestZeroImportance(t *testing.T) {
	x := gauss(7, 512)
	for _, typ := range quant.Types() {
		if !quant.Encodes(typ) {
			continue
		}
		a, b := make([]byte, typ.RowBytes(len(x))), make([]byte, typ.RowBytes(len(x)))
		if err := quant.Encode(typ, a, x, ones(len(x))); err != nil {
			t.Fatal(err)
		}
		if err := quant.Encode(typ, b, x, make([]float32, len(x))); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%v differs", typ)
		}
	}
}

// Encoding decoded values gives the same bytes if the widest code determines
// the scale, because the conversion from the step to float16 and back is exact.
func TestEncodeAgain(t *testing.T) {
	for _, typ := range []dtype.Type{dtype.F16, dtype.BF16, dtype.Q8_0, dtype.Q4_0, dtype.Q5_0, dtype.MXFP4} {
		t.Run(typ.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := drawRow(t, 64, 1e-3, 1e3)
				first, second := make([]byte, typ.RowBytes(64)), make([]byte, typ.RowBytes(64))
				y := make([]float32, 64)
				if err := quant.Encode(typ, first, x, nil); err != nil {
					t.Fatal(err)
				}
				if err := quant.Decode(typ, y, first); err != nil {
					t.Fatal(err)
				}
				if err := quant.Encode(typ, second, y, nil); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(first, second) {
					t.Fatalf("%g:\nfirst  %x\nsecond %x", x, first, second)
				}
			})
		})
	}
}

// drawRow draws n values of one magnitude between lo and hi, some of them 0.
func drawRow(t *rapid.T, n int, lo, hi float32) []float32 {
	scale := rapid.Float32Range(lo, hi).Draw(t, "scale")
	x := rapid.SliceOfN(rapid.Float32Range(-1, 1), n, n).Draw(t, "row")
	for i := range x {
		x[i] *= scale
	}
	return x
}

// Finite values of any size are encoded to finite values, and zeros to zeros.
func TestEncodeAnything(t *testing.T) {
	for _, typ := range quant.Types() {
		if !quant.Encodes(typ) || typ.IsFloat() {
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := typ.Elems()
				x := rapid.SliceOfN(rapid.OneOf(rapid.Float32Range(-3, 3), rapid.Float32Range(-math.MaxFloat32, math.MaxFloat32)), n, n).Draw(t, "row")
				w := rapid.OneOf(rapid.Just[[]float32](nil), rapid.SliceOfN(rapid.Float32Range(0, math.MaxFloat32), n, n)).Draw(t, "importance")
				for i, f := range roundTrip(t, typ, x, w) {
					if f-f != 0 {
						t.Fatalf("value %d of %g is %g", i, x, f)
					}
				}
			})
			zeros := make([]float32, 2*typ.Elems())
			for _, w := range [][]float32{nil, ones(len(zeros))} {
				for i, f := range roundTrip(t, typ, zeros, w) {
					if f != 0 {
						t.Fatalf("0 at %d encodes to %g", i, f)
					}
				}
			}
		})
	}
}

// The bytes of a row do not depend on how it is cut into whole blocks.
func TestBlocksAreIndependent(t *testing.T) {
	x := gauss(9, 1024)
	w := gauss(10, 1024)
	for i, f := range w {
		w[i] = f * f
	}
	for _, typ := range quant.Types() {
		if !quant.Encodes(typ) {
			continue
		}
		whole, part := make([]byte, typ.RowBytes(1024)), make([]byte, typ.RowBytes(256))
		for _, imp := range [][]float32{nil, w} {
			if err := quant.Encode(typ, whole, x, imp); err != nil {
				t.Fatal(err)
			}
			for i := 0; i < 1024; i += 256 {
				var p []float32
				if imp != nil {
					p = imp[i : i+256]
				}
				if err := quant.Encode(typ, part, x[i:i+256], p); err != nil {
					t.Fatal(err)
				}
				if at := typ.RowBytes(i); !bytes.Equal(part, whole[at:at+len(part)]) {
					t.Errorf("%v: values from %d on differ", typ, i)
				}
			}
		}
	}
}
