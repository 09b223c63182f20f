package gguf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"godwit/engine/dtype"
	"godwit/engine/internal/golden"
)

func TestHostile(t *testing.T) {
	for _, c := range hostiles(t) {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.data)
			if !errors.Is(err, c.is) {
				t.Fatalf("error is %v, want %v", err, c.is)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
		})
	}
}

// Every proper prefix of a valid file gives an error. No field may be read beyond
// the end, and no tensor may be lost silently.
func TestPrefixes(t *testing.T) {
	data, _, _ := sample(t)
	last := len(data) - (32-240%32)%32 // padding after the last tensor may be missing
	for n := range last {
		if _, err := Parse(data[:n:n]); err == nil {
			t.Fatalf("the first %d of %d bytes parse", n, len(data))
		}
	}
	if _, err := Parse(data[:last]); err != nil {
		t.Errorf("without the final padding: %v", err)
	}
}

func TestSample(t *testing.T) {
	data, kv, tensors := sample(t)
	for _, version := range []byte{2, 3} {
		data[4] = version
		f, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if f.Version != uint32(version) || f.Arch() != "llama" || f.KV.Len() != len(kv) {
			t.Errorf("version %d, architecture %q, %d keys", f.Version, f.Arch(), f.KV.Len())
		}
		if diff := cmp.Diff(tensors, f.Tensors); diff != "" {
			t.Error(diff)
		}
		for _, want := range tensors {
			got, ok := f.Tensor(want.Name)
			if !ok || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("tensor %q is %v, %v", want.Name, got, ok)
			}
		}
		if x, _ := f.Tensor("experts"); x.Rows() != 60 {
			t.Errorf("experts has %d rows, want 60", x.Rows())
		}
		if _, ok := f.Tensor("absent"); ok {
			t.Error("an absent tensor is found")
		}
	}
}

// Each getter accepts the types that its comment names and rejects all others.
func TestGetters(t *testing.T) {
	data, kv, _ := sample(t)
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	m := f.KV
	i := 0
	for k, v := range m.All() {
		if k != kv[i].Key {
			t.Errorf("key %d is %q, want %q", i, k, kv[i].Key)
		}
		want, err := valueOf(kv[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Any(), v.Any()); diff != "" {
			t.Errorf("%s: %s", k, diff)
		}
		i++
	}
	got := map[string][]any{}
	for k := range m.All() {
		note := func(v any, ok bool) {
			if ok {
				got[k] = append(got[k], v)
			}
		}
		note(two(m.Uint(k)))
		note(two(m.Int(k)))
		note(two(m.Float(k)))
		note(two(m.Bool(k)))
		note(two(m.String(k)))
		note(two(m.Strings(k)))
		note(two(m.Ints(k)))
		note(two(m.Floats(k)))
		note(two(m.Bools(k)))
	}
	want := map[string][]any{
		"general.architecture":      {"llama"},
		"llama.block_count":         {uint64(2), int64(2)},
		"u8":                        {uint64(200), int64(200)},
		"i8":                        {int64(-3)},
		"u16":                       {uint64(60000), int64(60000)},
		"i16":                       {int64(-30000)},
		"i32":                       {int64(-5)},
		"u64":                       {uint64(1) << 63},
		"i64":                       {int64(-1) << 60},
		"f32":                       {float64(float32(0.1))},
		"f64":                       {0.1},
		"yes":                       {true},
		"no":                        {false},
		"text":                      {"Grüße\x00\xff"},
		"empty":                     {""},
		"tokenizer.ggml.tokens":     {[]string{"a", "", "\xe2\x96\x81the", "<s>"}},
		"tokenizer.ggml.scores":     {[]float32{0, -1, -2.5, -3}},
		"tokenizer.ggml.token_type": {[]int64{1, 1, 1, 3}},
		"u8s":                       {[]int64{1, 255}},
		"i8s":                       {[]int64{-1, 1}},
		"u16s":                      {[]int64{1, 65535}},
		"i16s":                      {[]int64{-1, 1}},
		"u32s":                      {[]int64{1, 1 << 31}},
		"i64s":                      {[]int64{-1, 1 << 62}},
		"f64s":                      {[]float32{1, 0.5}},
		"bools":                     {[]bool{true, false, true}},
		"none":                      {[]string{}},
		"zero":                      {[]int64{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if m.Has("absent") || !m.Has("empty") {
		t.Error("Has is wrong")
	}
}

func two[T any](v T, ok bool) (any, bool) { return v, ok }

func TestValueString(t *testing.T) {
	long := make([]uint32, 20)
	for i := range long {
		long[i] = uint32(i)
	}
	for _, c := range []struct {
		in   any
		want string
	}{
		{int8(-3), "-3"},
		{true, "true"},
		{float32(0.5), "0.5"},
		{"a\n", `"a\n"`},
		{strings.Repeat("x", 300), `"` + strings.Repeat("x", 200) + `"… 300 bytes`},
		{[]string{"a", "b"}, `["a", "b"]`},
		{[]string{}, "[]"},
		{long, "[0, 1, 2, 3, 4, 5, 6, 7, … 20 of uint32]"},
	} {
		v, err := valueOf(c.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.String(); got != c.want {
			t.Errorf("%v prints as %s, want %s", c.in, got, c.want)
		}
	}
}

// Writing a parsed file gives the same bytes, for files of another writer (gguf-py)
// and for our own with an unusual alignment.
func TestRewrite(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(golden.Smalls(t), "*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(golden.Path(t, "models", "quant"), "*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	paths = append(paths, more...)
	if len(paths) < 40 {
		t.Fatalf("%d golden models found", len(paths))
	}
	for _, path := range paths {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := rewrite(t, f); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, rewritten %d, or they differ", path, len(want), len(got))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func rewrite(t testing.TB, f *File) []byte {
	t.Helper()
	var kv []KV
	for k, v := range f.KV.All() {
		kv = append(kv, KV{k, v})
	}
	var out bytes.Buffer
	if err := Write(&out, kv, f.Tensors); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Any list of keys, values and tensors survives writing and reading.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringN(1, 12, 40), 0, 12, rapid.ID).Draw(t, "keys")
		var kv []KV
		for _, k := range keys {
			if k == alignmentKey {
				continue
			}
			kv = append(kv, KV{k, drawValue(t)})
		}
		align := rapid.SampledFrom([]int{8, 16, 32, 64, 4096}).Draw(t, "align")
		if align != defaultAlign {
			kv = append(kv, KV{alignmentKey, uint32(align)})
		}
		var tensors []Tensor
		for _, name := range rapid.SliceOfNDistinct(rapid.StringN(1, 8, 20), 0, 6, rapid.ID).Draw(t, "names") {
			typ := rapid.SampledFrom([]dtype.Type{dtype.F32, dtype.F16, dtype.Q4_0, dtype.Q6_K, dtype.I8, dtype.MXFP4}).Draw(t, "type")
			shape := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "shape")
			shape[0] *= typ.Elems()
			x := Tensor{Name: name, Type: typ, Shape: shape}
			x.Data = seq(typ.RowBytes(shape[0]) * x.Rows())
			tensors = append(tensors, x)
		}
		var out bytes.Buffer
		if err := Write(&out, kv, tensors); err != nil {
			t.Fatal(err)
		}
		f, err := Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(tensors) != len(f.Tensors) {
			t.Fatalf("%d tensors, want %d", len(f.Tensors), len(tensors))
		}
		for i := range tensors {
			if diff := cmp.Diff(tensors[i], f.Tensors[i]); diff != "" {
				t.Fatal(diff)
			}
		}
		for _, e := range kv {
			want, err := valueOf(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := f.KV.Value(e.Key)
			if !ok || got.Kind != want.Kind || got.IsArray != want.IsArray || got.n != want.n || !bytes.Equal(got.raw, want.raw) {
				t.Fatalf("%q is %v, want %v", e.Key, got, want)
			}
		}
	})
}

func drawValue(t *rapid.T) any {
	return rapid.OneOf(
		rapid.Uint8().AsAny(), rapid.Int8().AsAny(), rapid.Uint16().AsAny(), rapid.Int16().AsAny(),
		rapid.Uint32().AsAny(), rapid.Int32().AsAny(), rapid.Uint64().AsAny(), rapid.Int64().AsAny(),
		rapid.Float32().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.SliceOf(rapid.String()).AsAny(), rapid.SliceOf(rapid.Int16()).AsAny(),
		rapid.SliceOf(rapid.Uint64()).AsAny(), rapid.SliceOf(rapid.Float32()).AsAny(),
		rapid.SliceOf(rapid.Float64()).AsAny(), rapid.SliceOf(rapid.Bool()).AsAny(),
	).Draw(t, "value")
}

func TestWriterErrors(t *testing.T) {
	ok := Tensor{Name: "t", Type: dtype.F32, Shape: []int{4}, Data: seq(16)}
	with := func(change func(*Tensor)) []Tensor {
		x := ok
		change(&x)
		return []Tensor{x}
	}
	for _, c := range []struct {
		name    string
		kv      []KV
		tensors []Tensor
		is      error
	}{
		{"key twice", []KV{{"a", true}, {"a", true}}, nil, ErrInvalid},
		{"empty key", []KV{{"", true}}, nil, ErrInvalid},
		{"int", []KV{{"a", 1}}, nil, ErrInvalid},
		{"zero Value", []KV{{"a", Value{}}}, nil, ErrTruncated},
		{"alignment 3", []KV{{alignmentKey, uint32(3)}}, nil, ErrInvalid},
		{"tensor twice", nil, []Tensor{ok, ok}, ErrInvalid},
		{"no name", nil, with(func(x *Tensor) { x.Name = "" }), ErrInvalid},
		{"no shape", nil, with(func(x *Tensor) { x.Shape = nil }), ErrInvalid},
		{"length 0", nil, with(func(x *Tensor) { x.Shape = []int{4, 0} }), ErrInvalid},
		{"negative length", nil, with(func(x *Tensor) { x.Shape = []int{-4} }), ErrInvalid},
		{"unknown type", nil, with(func(x *Tensor) { x.Type = 5 }), ErrTensorType},
		{"odd row", nil, with(func(x *Tensor) { x.Type = dtype.Q4_0 }), ErrInvalid},
		{"too little data", nil, with(func(x *Tensor) { x.Data = seq(15) }), ErrTruncated},
		{"too much data", nil, with(func(x *Tensor) { x.Data = seq(17) }), ErrInvalid},
	} {
		if err := Write(&bytes.Buffer{}, c.kv, c.tensors); !errors.Is(err, c.is) {
			t.Errorf("%s: error is %v, want %v", c.name, err, c.is)
		}
	}
}

// Data may be written in pieces of any size.
func TestWriterPieces(t *testing.T) {
	want, kv, tensors := sample(t)
	var all []byte
	for _, x := range tensors {
		all = append(all, x.Data...)
	}
	for _, size := range []int{1, 7, 100, len(all)} {
		var out bytes.Buffer
		w, err := NewWriter(&out, kv, tensors)
		if err != nil {
			t.Fatal(err)
		}
		for piece := range slices.Chunk(all, size) {
			if n, err := w.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("%d of %d bytes written: %v", n, len(piece), err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("pieces of %d bytes give another file", size)
		}
	}
}

// Opening reads only the head of a file. A vocabulary of a quarter of a million
// tokens takes a few allocations, not one per token.
func TestBigVocabulary(t *testing.T) {
	tokens := make([]string, 262144)
	for i := range tokens {
		tokens[i] = strings.Repeat("x", i%12)
	}
	var out bytes.Buffer
	if err := Write(&out, []KV{{"tokenizer.ggml.tokens", tokens}}, nil); err != nil {
		t.Fatal(err)
	}
	data := out.Bytes()
	start := time.Now()
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("parsed %d tokens in %v", len(tokens), time.Since(start))
	got, ok := f.KV.Strings("tokenizer.ggml.tokens")
	if !ok || !slices.Equal(got, tokens) {
		t.Error("the tokens differ")
	}
	n := testing.AllocsPerRun(5, func() {
		f, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		f.KV.Strings("tokenizer.ggml.tokens")
	})
	if n > 40 {
		t.Errorf("%.0f allocations for a file with one key, want at most 40", n)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := golden.Small(b, "llama-hd64")
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func TestLine(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "Llama 3": "Llama 3", "名前 é": "名前 é",
		"a\x1b[31m\x07\nb\x9b2J\u009b\u202ec\x00": "a[31mb2Jc",
		strings.Repeat("é", 1<<20):                strings.Repeat("é", 100),
		strings.Repeat("\x1b", 1<<20) + "a":       "",
		"a" + strings.Repeat("é", 200):            "a" + strings.Repeat("é", 99),
	} {
		if got := Line(s); got != want {
			t.Errorf("%.40q is %q, want %q", s, got, want)
		}
	}
}
