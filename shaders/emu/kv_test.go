//go:build linux || darwin

package emu

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"godwit/engine/kv"
	"godwit/shaders"
)

// headSizes are the head sizes of issue and suite.
var headSizes = []int{64, 80, 96, 128, 192, 256, 512, 576}

// TestEncodeGolden encodes every golden row. Rows marked exact must have the golden
// bytes, and other rows the bytes of engine/kv, whose own tests cover scales that
// f16 cannot store. Codes of a polar copy may differ in one pair of a thousand, as
// the data's README says.
func TestEncodeGolden(t *testing.T) {
	var index struct{ Formats []string }
	decode(t, &index, "index.json")
	for _, format := range index.Formats {
		form, err := kv.ParseForm(format)
		if err != nil {
			continue // a weight format
		}
		t.Run(format, func(t *testing.T) {
			var m struct{ Cases []goldenCase }
			decode(t, &m, format, "manifest.json")
			for _, c := range m.Cases {
				c.check(t, form)
			}
		})
	}
}

type goldenCase struct {
	Name      string
	HeadDim   int `json:"head_dim"`
	Vectors   int
	RowBytes  int `json:"row_bytes"`
	Input     string
	Check     []string
	Packed    string
	Positions []int32
}

func decode(t *testing.T, into any, path ...string) {
	t.Helper()
	if err := json.Unmarshal(readGolden(t, append([]string{"kv"}, path...)...), into); err != nil {
		t.Fatal(err)
	}
}

func (g *goldenCase) check(t *testing.T, named *kv.Type) {
	form, err := named.Hold(g.HeadDim)
	if err != nil {
		t.Fatal(err)
	}
	input := as[float32](slices.Clone(readGolden(t, "kv", g.Input)))[:g.Vectors*g.HeadDim]
	packed := readGolden(t, "kv", g.Packed)
	positions := g.Positions
	for i := int32(len(positions)); i < int32(g.Vectors); i++ {
		positions = append(positions, i)
	}
	want := make([]byte, 0, len(packed))
	for i := range g.Vectors {
		row := packed[i*g.RowBytes:][:g.RowBytes]
		if g.Check[i] != "exact" {
			row = make([]byte, g.RowBytes)
			form.Encode(row, input[i*g.HeadDim:][:g.HeadDim], kv.At{Pos: int(positions[i])})
		}
		want = append(want, row...)
	}
	checkEncoded(t, g.Name, form, g.HeadDim, input, want, positions)
}

// checkEncoded compares rows that the kernels wrote with the expected ones. Several
// rows may have the same position, so each is in its own sequence.
func checkEncoded(t *testing.T, name string, form *kv.Type, dim int, x []float32, want []byte, positions []int32) {
	t.Helper()
	c, err := shaders.NewCache(form, dim, 0)
	if err != nil {
		t.Fatal(err)
	}
	// a page table for the largest position, all of whose pages belong to the row
	rows, tables := []int32{}, []int32{}
	for i, p := range positions {
		first := int32(len(tables)) - p/64
		rows = append(rows, p, p+1, first, 0)
		tables = append(tables, int32(i))
	}
	cache, counts := make([]byte, len(positions)*64*c.HeadBytes), make([]byte, 64)
	for _, l := range c.Encode(1, shaders.Target{Side: kv.V, Inspect: true}) {
		args := map[string][]byte{"x": raw(x), "rows": raw(rows), "tables": raw(tables), "cache": cache, "counts": counts}
		if l.Table != nil {
			args["form"] = raw(l.Table)
		}
		out := once{
			kernel: l.Kernel.Name, constants: l.Constants, params: l.Params, args: args,
			grid: [3]uint32{l.X, 1, uint32(len(positions))},
		}.run(t)
		cache, counts = out["cache"], out["counts"]
	}
	checkCounts(t, name, form, dim, x, positions, counts)
	pairs, moved := 0, 0
	for i, p := range positions {
		got := cache[(i*64+int(p)%64)*c.HeadBytes:][:c.HeadBytes]
		row := want[i*c.HeadBytes:][:c.HeadBytes]
		if form.Polar != nil {
			pairs += form.Elems / 2
			moved += differing(got[form.Polar.Radius:], row[form.Polar.Radius:])
			got, row = got[:form.Polar.Radius], row[:form.Polar.Radius]
		}
		if !slices.Equal(got, row) {
			t.Fatalf("%s: row %d:\n got %x\nwant %x", name, i, got, row)
		}
	}
	if moved*1000 > pairs {
		t.Errorf("%s: %d of %d polar pairs differ", name, moved, pairs)
	}
}

// checkCounts compares the counters with the content of the rows and with the
// counters of the type's own encoder.
func checkCounts(t *testing.T, name string, form *kv.Type, dim int, x []float32, positions []int32, counts []byte) {
	t.Helper()
	var want [8]uint64
	row := make([]byte, form.RowBytes(dim))
	for i, p := range positions {
		v := x[i*dim:][:dim]
		want[4] += uint64(form.Encode(row, v, kv.At{Pos: int(p)}))
		if slices.ContainsFunc(v, func(v float32) bool { return v-v != 0 }) {
			want[5]++
		}
	}
	for i, n := range want {
		if got := binary.LittleEndian.Uint64(counts[8*i:]); got != n {
			t.Errorf("%s: counter %d is %d, want %d", name, i, got, n)
		}
	}
}

// differing returns the number of different angle codes, four bits each after 24
// bytes of radii, and of different radii with equal angles.
func differing(got, want []byte) (n int) {
	for i := range 32 {
		for _, shift := range []int{0, 4} {
			if got[24+i]>>shift&15 != want[24+i]>>shift&15 {
				n++
			}
		}
	}
	if n == 0 && !slices.Equal(got[:24], want[:24]) {
		n++
	}
	return n
}

// rowsFor returns rows of a head size: Gaussian rows of several magnitudes, and
// rows at the limits of float32.
func rowsFor(dim int) []float32 {
	x := normal(uint64(dim), 12*dim)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	edit := func(row int, f func(i int, v float32) float32) {
		for i := range dim {
			x[row*dim+i] = f(i, x[row*dim+i])
		}
	}
	edit(0, func(_ int, v float32) float32 { return 50 * v })
	edit(1, func(_ int, v float32) float32 { return v * 1e-6 })
	edit(2, func(int, float32) float32 { return 0 })
	edit(3, func(int, float32) float32 { return float32(math.Copysign(0, -1)) })
	edit(4, func(i int, v float32) float32 { return pick(i == 5, nan, v) })
	edit(5, func(i int, v float32) float32 { return pick(i == 7, inf, v) })
	edit(6, func(_ int, v float32) float32 { return v * 1e20 })
	edit(7, func(_ int, v float32) float32 { return v * 1e-20 })
	edit(8, func(i int, _ float32) float32 { return pick(i == 3, 1, 0) })
	edit(9, func(_ int, v float32) float32 { return v * 3e4 })
	edit(10, func(int, float32) float32 { return -1.5 })
	return x
}

func pick(yes bool, a, b float32) float32 {
	if yes {
		return a
	}
	return b
}

// TestEncodeForms encodes rows in every form at every head size that it supports.
// The bytes must equal those of engine/kv.
func TestEncodeForms(t *testing.T) {
	for _, named := range kv.Forms() {
		t.Run(named.Name, func(t *testing.T) {
			for _, dim := range headSizes {
				form, err := named.Hold(dim)
				if err != nil {
					continue
				}
				x := rowsFor(dim)
				n := len(x) / dim
				var positions []int32
				want := make([]byte, n*form.RowBytes(dim))
				for i := range n {
					p := 1000*i + 13
					positions = append(positions, int32(p))
					form.Encode(want[i*form.RowBytes(dim):][:form.RowBytes(dim)], x[i*dim:][:dim], kv.At{Pos: p})
				}
				checkEncoded(t, fmt.Sprintf("head %d", dim), form, dim, x, want, positions)
			}
		})
	}
}
