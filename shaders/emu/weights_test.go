//go:build linux || darwin

package emu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"godwit/engine/dtype"
	"godwit/engine/quant"
	"godwit/shaders"
)

// formats are the weight formats that the kernels support.
var formats = []dtype.Type{
	dtype.F32, dtype.F16, dtype.BF16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1,
	dtype.Q4_K, dtype.Q5_K, dtype.Q6_K, dtype.IQ4_NL, dtype.IQ4_XS, dtype.MXFP4,
	dtype.Q2_K, dtype.Q3_K, dtype.TQ1_0, dtype.TQ2_0, dtype.NVFP4, dtype.Q1_0, dtype.Q2_0, dtype.TQ3_1S, dtype.TQ4_1S,
	dtype.IQ1_S, dtype.IQ1_M, dtype.IQ2_XXS, dtype.IQ2_XS, dtype.IQ2_S, dtype.IQ3_XXS, dtype.IQ3_S,
}

// book returns the codebook of a format in the kernels' form.
func book(f dtype.Type) []byte {
	points, _ := quant.Grid(f)
	if points == nil {
		return make([]byte, 64)
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(points))), len(points))
}

// multiplied are the formats with which small matrix products are tested. All
// kernels read a format in the same way.
var multiplied = []dtype.Type{dtype.F32, dtype.Q8_0, dtype.Q4_K, dtype.IQ2_XS}

// matrix is [mats·rows][cols] random weights, as bytes with scales that are
// ordinary numbers, and as values.
func matrix(t testing.TB, f dtype.Type, cols, rows int) ([]byte, []float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(f), 3))
	data := make([]byte, f.RowBytes(cols)*rows)
	values := make([]float32, cols*rows)
	if quant.Encode(f, data, normal(uint64(f)+1, len(values)), nil) != nil {
		for at := 0; at < len(data); at += f.Bytes() { // a format without an encoder, for which any bits with ordinary values are used
			block, v := data[at:at+f.Bytes()], make([]float32, f.Elems())
			for ordinary := false; !ordinary; ordinary = !slices.ContainsFunc(v, func(x float32) bool { return !(math.Abs(float64(x)) < 100) }) {
				for i := range block {
					block[i] = byte(r.Uint32())
				}
				if err := quant.Decode(f, v, block); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := quant.Decode(f, values, data); err != nil {
		t.Fatal(err)
	}
	return data, values
}

func TestEmbed(t *testing.T) {
	for _, f := range formats {
		const rows = 9
		cols := 512
		if f.IsFloat() {
			cols = 77
		}
		data, values := matrix(t, f, cols, rows)
		ids := []int32{3, 0, 8, 3}
		out := once{
			kernel: "embed", constants: shaders.Constants{"WEIGHT": int(f)}, grid: groups("embed", len(ids)*(cols+7)/8+128),
			args:   map[string][]byte{"w": data, "ids": raw(ids), "grid": book(f), "y": nans(len(ids) * cols)},
			params: shaders.Bytes(&shaders.EmbedParams{Count: uint32(len(ids)), Cols: uint32(cols), Rows: rows, RowBytes: uint32(f.RowBytes(cols)), Scale: 1}),
		}.run(t)
		var want []float32
		for _, id := range ids {
			want = append(want, values[int(id)*cols:][:cols]...)
		}
		if got := as[float32](out["y"]); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", f, got[:8], want[:8])
		}
	}
}

// product returns x·wᵀ + bias, and the sum of the terms' magnitudes.
func product(w, x, bias []float32, cols int) (y, size []float64) {
	for b := 0; b < len(x); b += cols {
		for r := range len(w) / cols {
			var s, m float64
			for i := range cols {
				v := float64(w[r*cols+i]) * float64(x[b+i])
				s, m = s+v, m+math.Abs(v)
			}
			if bias != nil {
				s, m = s+float64(bias[r]), m+math.Abs(float64(bias[r]))
			}
			y, size = append(y, s), append(size, m)
		}
	}
	return y, size
}

// sumBound is the error of a sum in float32 whose longest chain has n additions.
func sumBound(size []float64, n int) func(int) float64 {
	return func(i int) float64 { return float64(n) * 0x1p-24 * size[i] }
}

func TestProducts(t *testing.T) {
	for _, f := range formats {
		shapes := [][3]int{{576, 70, 5}, {1024, 3, 33}}
		if f.Elems() >= 128 {
			shapes[0][0] = 768
		}
		if f.IsFloat() {
			shapes = append(shapes, [3]int{77, 66, 3}, [3]int{4, 5, 2})
		}
		for _, s := range shapes {
			cols, rows, batch := s[0], s[1], s[2]
			data, w := matrix(t, f, cols, rows)
			x, bias := normal(9, batch*cols), normal(10, rows)
			want, size := product(w, x, bias, cols)
			args := map[string][]byte{"w": data, "x": raw(x), "bias": raw(bias), "grid": book(f), "y": nans(batch * rows)}
			p := shaders.MatvecParams{Cols: uint32(cols), Rows: uint32(rows), RowBytes: uint32(f.RowBytes(cols)), Batch: uint32(batch), Bias: 1}
			var one []float32
			for _, together := range []int{1, 2, 8} {
				out := once{
					kernel: "matvec", constants: shaders.Constants{"WEIGHT": int(f), "ROWS": together}, args: args,
					grid: [3]uint32{uint32(rows+3) / 4, uint32((batch + together - 1) / together), 1}, params: shaders.Bytes(&p),
				}.run(t)
				got := as[float32](out["y"])
				near(t, fmt.Sprintf("%v matvec %v", f, s), got, want, sumBound(size, cols/32+16))
				if one == nil {
					one = got
				}
				if !slices.Equal(one, got) {
					t.Errorf("%v: results depend on how many rows run together", f)
				}
			}
			q := shaders.MatmulParams(p)
			for mma := range 3 {
				if mma > 0 && !slices.Contains(multiplied, f) {
					continue
				}
				out := once{
					kernel: "matmul", constants: shaders.Constants{"WEIGHT": int(f), "MMA": mma}, args: args, params: shaders.Bytes(&q),
					grid: [3]uint32{uint32(rows+63) / 64, uint32(batch+31) / 32, 1},
				}.run(t)
				near(t, fmt.Sprintf("%v matmul %v, mma %d", f, s, mma), as[float32](out["y"]), want, sumBound(size, cols+8))
			}
		}
	}
}

func TestExpert(t *testing.T) {
	testExpert(t, dtype.Q8_0, 64)
	testExpert(t, dtype.IQ2_XS, 256)
}

func testExpert(t *testing.T, f dtype.Type, cols int) {
	t.Helper()
	const rows, experts, used, batch = 6, 5, 3, 2
	data, w := matrix(t, f, cols, rows*experts)
	bias := normal(2, rows*experts)
	route := []float32{4, 0, 2, .5, .3, .2, 1, 1, 3, .5, .3, .2}
	for _, c := range []struct{ byRoute, perSlot uint32 }{{1, 0}, {1, 1}, {0, 1}} {
		width := cols
		if c.perSlot == 1 {
			width *= used
		}
		x := normal(5, batch*width)
		var want, size []float64
		for b := range batch {
			for s := range used {
				e := s
				if c.byRoute == 1 {
					e = int(route[b*2*used+s])
				}
				part := x[b*width:][:cols]
				if c.perSlot == 1 {
					part = x[b*width+s*cols:][:cols]
				}
				y, m := product(w[e*rows*cols:][:rows*cols], part, bias[e*rows:][:rows], cols)
				want, size = append(want, y...), append(size, m...)
			}
		}
		out := once{
			kernel: "expert", constants: shaders.Constants{"WEIGHT": int(f), "ROWS": 1}, grid: [3]uint32{2, batch * used, 1},
			args: map[string][]byte{"w": data, "x": raw(x), "route": raw(route), "bias": raw(bias), "grid": book(f), "y": nans(len(want))},
			params: shaders.Bytes(&shaders.ExpertParams{
				Cols: uint32(cols), Rows: rows, RowBytes: uint32(f.RowBytes(cols)), Used: used, ByRoute: c.byRoute, PerSlot: c.perSlot, Bias: 1,
			}),
		}.run(t)
		near(t, "expert", as[float32](out["y"]), want, sumBound(size, 24))
	}
}
