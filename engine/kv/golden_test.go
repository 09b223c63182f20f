package kv

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"godwit/engine/internal/golden"
)

// manifest describes one format's vectors; see the data's README.
type manifest struct {
	Format     string
	BlockElems int   `json:"block_elems"`
	BlockBytes int   `json:"block_bytes"`
	Scales     []int `json:"scale_f16_offsets_in_block"`
	Cases      []goldenCase
}

type goldenCase struct {
	Name      string
	HeadDim   int `json:"head_dim"`
	PaddedDim int `json:"padded_dim"`
	Vectors   int
	RowBytes  int `json:"row_bytes"`
	Input     string
	Tags      []string
	Check     []string
	Packed    string
	Positions []int
	Rotated   *goldenFile
	Restored  *goldenFile
	Scores    *goldenFile
}

type goldenFile struct {
	File    string
	Dim     int
	Queries string
}

func readManifest(t testing.TB, format string) manifest {
	t.Helper()
	var m manifest
	if err := json.Unmarshal(golden.Read(t, "kv", format, "manifest.json"), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func readFloats(t testing.TB, path string) []float32 {
	t.Helper()
	b := golden.Read(t, "kv", path)
	f := make([]float32, len(b)/4)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return f
}

// Formats in the index that are not cache types: weights, and the data of an
// unsupported feature.
var notCacheTypes = []string{"tq3_1s", "tq4_1s"}

// Compares every vector of every format: bytes, rotated and restored values,
// scores.
func TestGolden(t *testing.T) {
	var index struct{ Formats, Other []string }
	if err := json.Unmarshal(golden.Read(t, "kv", "index.json"), &index); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, format := range index.Formats {
		if slices.Contains(notCacheTypes, format) {
			continue
		}
		t.Run(format, func(t *testing.T) {
			typ, err := ParseForm(format)
			if err != nil {
				t.Fatal(err)
			}
			seen[typ.Name] = true
			m := readManifest(t, format)
			for _, c := range m.Cases {
				t.Run(c.Name, func(t *testing.T) { checkCase(t, typ, &m, &c) })
			}
		})
	}
	for _, f := range Forms() {
		if !seen[f.Name] && !withoutVectors(f) {
			t.Errorf("%s: no vectors", f.Name)
		}
	}
}

// withoutVectors reports whether a format has no golden vectors. f32 is stored
// unchanged, the rotated stock formats and the re-blocked turbo formats have
// separate tests, tq3_0-qjl exists only as a description, and the gw family is
// Godwit's own.
func withoutVectors(f *Type) bool {
	return f.Cut != nil || f.Codes.Packing == Cyclic || f.Name == "f32" || f.Name == "tq3_0-qjl" || strings.HasSuffix(f.Name, "-rot") || strings.HasSuffix(f.Name, "-b32")
}

func checkCase(t *testing.T, typ *Type, m *manifest, c *goldenCase) {
	form, err := typ.Hold(c.HeadDim)
	if err != nil {
		t.Fatal(err)
	}
	if got := form.RowBytes(c.HeadDim); got != c.RowBytes {
		t.Fatalf("row of %d bytes, want %d", got, c.RowBytes)
	}
	if got := form.Padded(c.HeadDim); got != c.PaddedDim {
		t.Fatalf("padded to %d, want %d", got, c.PaddedDim)
	}
	input := readFloats(t, c.Input)
	packed := golden.Read(t, "kv", c.Packed)
	row := make([]byte, c.RowBytes)
	pairs, moved := 0, 0
	for i := range c.Vectors {
		at := At{}
		if c.Positions != nil {
			at.Pos = c.Positions[i]
		}
		for j := range row {
			row[j] = 0xa5
		}
		saturated := form.Encode(row, input[i*c.HeadDim:][:c.HeadDim], at)
		want := packed[i*c.RowBytes:][:c.RowBytes]
		if form.Polar != nil {
			pairs += form.Elems / 2
			moved += samePolar(t, form, c, i, row, want)
		} else {
			sameBytes(t, m, c, i, row, want)
		}
		bad := c.Check[i] == "inf_scale" || c.Check[i] == "nan_scale"
		// A NaN among the values makes iq4_nl's fit NaN. Its reference happens to
		// store 0 there, which the data calls exact.
		bad = bad || m.Format == "iq4_nl" && c.Tags[i] == "nan"
		if bad != (saturated > 0) {
			t.Errorf("row %d (%s, %s): %d blocks counted", i, c.Tags[i], c.Check[i], saturated)
		}
	}
	if moved*1000 > pairs {
		t.Errorf("%d of %d polar pairs differ", moved, pairs)
	}
	checkDecoded(t, form, c, packed)
	checkScores(t, form, c, packed)
}

// sameBytes compares a packed row. The exceptions come from the specification: an
// infinite scale is stored as the largest finite f16, and a NaN scale as 0. For f16
// this applies to every value.
func sameBytes(t *testing.T, m *manifest, c *goldenCase, i int, got, want []byte) {
	t.Helper()
	want = slices.Clone(want)
	if c.Check[i] == "inf_scale" || c.Check[i] == "nan_scale" {
		for block := 0; block < len(want); block += m.BlockBytes {
			for _, at := range m.Scales {
				saturateF16(want[block+at:])
			}
		}
	}
	for j := range want {
		if got[j] != want[j] {
			t.Errorf("row %d (%s, %s): byte %d is %02x, want %02x", i, c.Tags[i], c.Check[i], j, got[j], want[j])
			return
		}
	}
}

func saturateF16(b []byte) {
	h := binary.LittleEndian.Uint16(b)
	switch {
	case h&0x7fff > 0x7c00:
		h = 0
	case h&0x7fff == 0x7c00:
		h = h&0x8000 | 0x7bff
	}
	binary.LittleEndian.PutUint16(b, h)
}

// samePolar compares a row with a polar copy. The bytes before the copy and its
// scale must be equal, and its codes are compared pair by pair. It returns the
// number of different pairs, not counting rows far below the scale floor
// ("polar_near").
func samePolar(t *testing.T, form *Type, c *goldenCase, i int, got, want []byte) (moved int) {
	t.Helper()
	want = slices.Clone(want)
	for _, at := range []int{form.Scale.At, form.Polar.Sigma} {
		saturateF16(want[at:])
	}
	head := form.Polar.Radius
	if !slices.Equal(got[:head], want[:head]) {
		t.Errorf("row %d (%s): first %d bytes\n got %x\nwant %x", i, c.Tags[i], head, got[:head], want[:head])
	}
	if c.Check[i] == "polar_near" {
		return 0
	}
	var a, b [2][64]uint8
	for k, side := range []*[2][64]uint8{&a, &b} {
		row := [][]byte{got, want}[k]
		stream(side[0][:], row[form.Polar.Radius:], 3)
		stream(side[1][:], row[form.Polar.Angle:], 4)
	}
	for k := range 64 {
		if a[0][k] != b[0][k] || a[1][k] != b[1][k] {
			moved++
		}
	}
	return moved
}

// checkDecoded compares rotated and restored values bit for bit.
func checkDecoded(t *testing.T, form *Type, c *goldenCase, packed []byte) {
	for _, f := range []struct {
		data   *goldenFile
		decode func(dst []float32, src []byte)
	}{
		{c.Rotated, form.DecodeRotated},
		{c.Restored, func(dst []float32, src []byte) { form.Decode(dst, src, At{}) }},
	} {
		if f.data == nil {
			continue
		}
		want := readFloats(t, f.data.File)
		got := make([]float32, f.data.Dim)
		for i := range c.Vectors {
			f.decode(got, packed[i*c.RowBytes:][:c.RowBytes])
			for j, g := range got {
				w := want[i*f.data.Dim+j]
				if g == 0 && w == 0 && c.Check[i] == "zero_scale_codes_unspecified" {
					continue // the sign of a zero depends on a code that the spec leaves open
				}
				if math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
					t.Errorf("%s row %d (%s): value %d is %g, want %g", f.data.File, i, c.Tags[i], j, g, w)
					break
				}
			}
		}
	}
}

// checkScores compares q·K as attention computes it, within 2e-6·|q|·|k|, the bound
// in the data. Rows with an infinite or NaN scale have no score.
func checkScores(t *testing.T, form *Type, c *goldenCase, packed []byte) {
	if c.Scores == nil {
		return
	}
	want := readFloats(t, c.Scores.File)
	queries := readFloats(t, c.Scores.Queries)
	input := readFloats(t, c.Input)
	q := make([]float32, form.Padded(c.HeadDim))
	res := make([]float32, len(q))
	n := len(queries) / c.HeadDim
	for k := range n {
		query := queries[k*c.HeadDim:][:c.HeadDim]
		form.RotateQuery(q, res, query)
		for i := range c.Vectors {
			if c.Check[i] == "inf_scale" || c.Check[i] == "nan_scale" {
				continue
			}
			got := form.Score(q, res, packed[i*c.RowBytes:][:c.RowBytes])
			bound := 2e-6 * length(query) * length(input[i*c.HeadDim:][:c.HeadDim])
			if d := math.Abs(float64(got) - float64(want[i*n+k])); !(d <= bound) {
				t.Errorf("row %d (%s) query %d: score %g, want %g ± %g", i, c.Tags[i], k, got, want[i*n+k], bound)
			}
		}
	}
}

func length(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s)
}

// Compares the rotation alone, forward and inverse.
func TestGoldenRotation(t *testing.T) {
	input := readFloats(t, "turbo_rotation/input.f32")
	forward := readFloats(t, "turbo_rotation/forward.f32")
	inverse := readFloats(t, "turbo_rotation/inverse.f32")
	r := &Turbo3.Rotation
	for i := 0; i < len(input); i += r.Size {
		x := slices.Clone(input[i : i+r.Size])
		r.forward(x)
		if !slices.Equal(x, forward[i:i+r.Size]) {
			t.Errorf("vector %d: forward differs", i/r.Size)
		}
		r.inverse(x)
		if !slices.Equal(x, inverse[i:i+r.Size]) {
			t.Errorf("vector %d: inverse differs", i/r.Size)
		}
	}
}
