package kv

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// encodings are all encodings with a head size that each supports, in the order of
// the registry.
func encodings(t testing.TB) []encoding {
	var out []encoding
	for _, f := range Forms() {
		for _, dim := range []int{32, 64, 80, 96, 128, 192, 256, 512, 576} {
			for _, s := range []Side{K, V} {
				if !f.holds(dim) {
					continue
				}
				out = append(out, encoding{f.Form(dim, s), dim, fmt.Sprintf("%s/%v/%d", f.Name, s, dim)})
			}
		}
	}
	if len(out) < 100 {
		t.Fatalf("%d encodings", len(out))
	}
	return out
}

type encoding struct {
	*Type
	dim  int
	name string
}

func (e encoding) encode(x []float32) ([]byte, int) {
	row := make([]byte, e.RowBytes(e.dim))
	return row, e.Encode(row, x, At{Pos: 7})
}

func (e encoding) decode(row []byte) []float32 {
	x := make([]float32, e.dim)
	e.Decode(x, row, At{Pos: 7})
	return x
}

func gauss(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// Any activations give a packed row that decodes to finite values, and
// saturated blocks are counted.
func TestHostileValues(t *testing.T) {
	odd := []float32{
		0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, -1e-40, 1e-20, 1e-10, 1, -1, 1e5, -65504, 65520,
		1e20, math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	}
	for _, e := range encodings(t) {
		if e.Float && e.Name != "f16" {
			continue // f32 and bf16 store infinity and NaN unchanged
		}
		rapid.Check(t, func(t *rapid.T) {
			x := make([]float32, e.dim)
			scale := rapid.SampledFrom(odd).Draw(t, "fill")
			for i := range x {
				x[i] = scale
			}
			for range rapid.IntRange(0, 4).Draw(t, "spikes") {
				x[rapid.IntRange(0, e.dim-1).Draw(t, "at")] = rapid.SampledFrom(odd).Draw(t, "value")
			}
			row, saturated := e.encode(x)
			for i, v := range e.decode(row) {
				if v-v != 0 {
					t.Fatalf("%s: value %d is %g", e.name, i, v)
				}
			}
			bad := slices.ContainsFunc(x, func(v float32) bool { return v-v != 0 })
			affine := e.Scale.Affine && !slices.ContainsFunc(x, func(v float32) bool { return v == v })
			if (e.Name == "f16" && bad || affine) && saturated == 0 {
				t.Fatalf("%s: nothing counted", e.name)
			}
		})
	}
}

// Re-encoding a decoded row of ordinary values keeps its codes.
func TestReencode(t *testing.T) {
	for _, e := range encodings(t) {
		if e.Polar != nil || e.Residual != nil || e.Join != nil || e.Scale.Rule == StockFitted || e.Scale.Rule == Unbiased {
			continue // a second plane, or a scale chosen after the codes, has no fixed point
		}
		if e.Padded(e.dim) != e.dim {
			continue // decoding removes the padding, so another vector is encoded
		}
		r := rand.New(rand.NewPCG(1, 2))
		moved, values := 0, 0
		for range 20 {
			x := gauss(r, e.dim, 3)
			row, _ := e.encode(x)
			again, _ := e.encode(e.decode(row))
			moved += differing(e.Type, row, again)
			values += e.Padded(e.dim)
		}
		if moved != 0 {
			t.Errorf("%s: %d of %d codes moved", e.name, moved, values)
		}
	}
}

// differing counts the codes in which two rows differ.
func differing(t *Type, a, b []byte) (n int) {
	if t.Float {
		if !bytes.Equal(a, b) {
			return 1
		}
		return 0
	}
	x, y := make([]uint8, t.Elems), make([]uint8, t.Elems)
	for at := 0; at < len(a); at += t.Bytes {
		t.Codes.unpack(x, a[at:at+t.Bytes])
		t.Codes.unpack(y, b[at:at+t.Bytes])
		for i := range x {
			if x[i] != y[i] {
				n++
			}
		}
	}
	return n
}

// Attention in the rotated domain gives the same results: the score of a prepared
// query and a packed key equals that of the query and the restored key, and a sum
// of rotated rows that is rotated back equals the sum of restored rows. The bound
// is the rounding error of two transforms and a dot product of n terms.
func TestRotatedDomain(t *testing.T) {
	const eps = 1.0 / (1 << 24)
	for _, e := range encodings(t) {
		r := rand.New(rand.NewPCG(3, 4))
		n := float64(e.Padded(e.dim))
		bound := (n + 4*math.Log2(n) + 8) * eps
		x, q := gauss(r, e.dim, 1), gauss(r, e.dim, 1)
		row, _ := e.encode(x)
		restored := e.decode(row)
		if !e.HasResidual() {
			query := make([]float32, e.Padded(e.dim))
			e.RotateQuery(query, nil, q)
			var want float64
			for i := range q {
				want += float64(q[i]) * float64(restored[i])
			}
			if got := float64(e.Score(query, nil, row)); math.Abs(got-want) > bound*length(q)*length(restored)*2 {
				t.Errorf("%s: score %g, want %g", e.name, got, want)
			}
		}
		rotated := make([]float32, e.Padded(e.dim))
		sum := make([]float32, len(rotated))
		want := make([]float64, e.dim)
		for k := range 5 {
			w := float32(k) - 1.5
			row, _ := e.encode(gauss(r, e.dim, 1))
			e.DecodeRotated(rotated, row)
			for i, v := range rotated {
				sum[i] += w * v
			}
			for i, v := range e.decode(row) {
				want[i] += float64(w) * float64(v)
			}
		}
		out := make([]float32, e.dim)
		e.UnrotateOutput(out, sum)
		var norm float64
		for _, v := range want {
			norm += v * v
		}
		for i, v := range out {
			if math.Abs(float64(v)-want[i]) > bound*math.Sqrt(norm)*4 {
				t.Errorf("%s: output %d is %g, want %g", e.name, i, v, want[i])
				break
			}
		}
	}
}

// A residual sign plane brings the score closer to the exact one, on average.
func TestResidualHelps(t *testing.T) {
	for _, e := range encodings(t) {
		if !e.HasResidual() {
			continue
		}
		r := rand.New(rand.NewPCG(5, 6))
		var with, without float64
		for range 200 {
			x, q := gauss(r, e.dim, 1), gauss(r, e.dim, 1)
			row, _ := e.encode(x)
			query := make([]float32, e.Padded(e.dim))
			res := make([]float32, len(query))
			e.RotateQuery(query, res, q)
			var want float64
			for i := range q {
				want += float64(q[i]) * float64(x[i])
			}
			a := float64(e.Score(query, res, row)) - want
			b := float64(e.Score(query, nil, row)) - want
			with += a * a
			without += b * b
		}
		if with >= without {
			t.Errorf("%s: squared error %g with the residual, %g without", e.name, with, without)
		}
	}
}

// Rotations and their inverses preserve the length.
func TestRotationKeepsNorm(t *testing.T) {
	for _, e := range encodings(t) {
		rot := e.Rotation
		if rot.Size == 0 {
			continue
		}
		r := rand.New(rand.NewPCG(7, 8))
		x := gauss(r, rot.Size, 2)
		y := slices.Clone(x)
		rot.forward(y)
		grows := 1.0 // unnormalised transforms grow by the root of their size
		if rot.Forward == 0 {
			grows = math.Sqrt(float64(rot.Size))
		}
		if rot.Mid != nil {
			grows *= grows
		}
		bound := float64(2*math.Log2(float64(rot.Size))+4) / (1 << 24)
		if got, want := length(y), length(x)*grows; math.Abs(got-want) > bound*want {
			t.Errorf("%s: length %g becomes %g", e.name, want, got)
		}
		rot.inverse(y)
		for i := range x {
			if math.Abs(float64(y[i]-x[i])) > bound*length(x)*2 {
				t.Errorf("%s: value %d comes back as %g, was %g", e.name, i, y[i], x[i])
				break
			}
		}
	}
}

// The 32-value blocks of older files are turbo's codes in other blocks, without
// loss.
func TestReblocked(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, pair := range [][2]*Type{{Turbo3, Turbo3B32}, {Turbo2, Turbo2B32}} {
		whole, split := encoding{Type: pair[0], dim: 256}, encoding{Type: pair[1], dim: 256}
		x := gauss(r, 256, 1)
		a, _ := whole.encode(x)
		b, _ := split.encode(x)
		codes := make([]uint8, 256)
		for i := range 2 {
			whole.Codes.unpack(codes[128*i:128*i+128], a[i*whole.Bytes:][:whole.Bytes])
		}
		part := make([]uint8, 32)
		for i := range 8 {
			block := b[i*split.Bytes:][:split.Bytes]
			split.Codes.unpack(part, block)
			if !bytes.Equal(part, codes[32*i:32*i+32]) || !bytes.Equal(block[:2], a[i/4*whole.Bytes:][:2]) {
				t.Errorf("%s: block %d differs", split.Name, i)
			}
		}
		if !slices.Equal(whole.decode(a), split.decode(b)) {
			t.Errorf("%s decodes to other values", split.Name)
		}
	}
}

// A -rot row equals the stock row of the transformed head, and K and V have the
// sizes of the specification.
func TestRotatedStock(t *testing.T) {
	for _, pair := range [][2]*Type{{Q8_0, Q8_0Rot}, {Q5_1, Q5_1Rot}, {Q5_0, Q5_0Rot}, {Q4_1, Q4_1Rot}, {Q4_0, Q4_0Rot}, {IQ4NL, IQ4NLRot}} {
		for dim, sizes := range map[int][2]int{32: {32, 32}, 64: {64, 64}, 96: {32, 32}, 128: {128, 64}, 192: {64, 64}, 256: {256, 64}, 576: {64, 64}} {
			for _, s := range []Side{K, V} {
				r := rand.New(rand.NewPCG(11, 12))
				form := pair[1].Form(dim, s)
				if form.Rotation.Size != sizes[s] {
					t.Errorf("%s at %d %v: transform of %d, want %d", form.Name, dim, s, form.Rotation.Size, sizes[s])
				}
				x := gauss(r, dim, 1)
				got, _ := encoding{Type: form, dim: dim}.encode(x)
				for i := 0; i < dim; i += sizes[s] {
					orthonormal(x[i : i+sizes[s]])
				}
				if want, _ := (encoding{Type: pair[0], dim: dim}).encode(x); differing(pair[0], got, want) > 0 || len(got) != len(want) {
					t.Errorf("%s at %d %v: codes differ from those of the transformed head", form.Name, dim, s)
				}
			}
		}
	}
}

// orthonormal is the Walsh-Hadamard transform from its matrix: entry (i, j) is
// minus one to the number of ones in i AND j.
func orthonormal(x []float32) {
	y := slices.Clone(x)
	for i := range x {
		var s float64
		for j, v := range y {
			if ones(i&j)%2 == 1 {
				v = -v
			}
			s += float64(v)
		}
		x[i] = float32(s / math.Sqrt(float64(len(x))))
	}
}

func ones(n int) (c int) {
	for ; n > 0; n &= n - 1 {
		c++
	}
	return c
}
