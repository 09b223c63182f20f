package golden

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"godwit/engine/llm"
)

// Model is a small model. Its file consists of a stored header and of weights
// from a formula, which engine/testdata/golden/arch/README.md defines.
type Model struct {
	Name, Header string
	Seed         uint64
	Tensors      []rule               // rules for the tensors that are not in Values, in file order
	Values       map[string][]float32 // values of tensors without a formula
	dir          string               // folder of Header

	// Results of llama.cpp, for the models of golden/arch.

	Arch, Mode string
	Features   []string
	Vocab      int     `json:"n_vocab"`
	Logits     string  `json:"logits_file"`
	Row        int     `json:"n_row"`
	Tolerance  float64 // largest allowed difference of a logit
	Pooling    int
	PooledAt   int `json:"pooled_offset"`
	Pooled     int `json:"n_pooled"`
	Runs       []Run
}

// Run is one prompt in a fresh context.
type Run struct {
	Tokens    []llm.Token
	Encoder   []llm.Token // input of an encoder-decoder model
	Prefill   int         `json:"n_prefill"` // number of tokens in the first batch
	Positions []int
	Context   int `json:"n_ctx"`
	Offset    int `json:"prefill_offset"`
}

// rule defines the distribution of a tensor's values.
type rule struct {
	name     string
	offset   float32
	exponent int
}

// UnmarshalJSON reads a list of name, offset and exponent.
func (r *rule) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.name, &r.offset, &r.exponent})
}

// Archs returns the models of golden/arch. There is at least one for every
// architecture that llama.cpp knows.
func Archs(t testing.TB) []Model {
	t.Helper()
	return models(t, Path(t, "arch", "manifest.json"))
}

// Rows returns llama.cpp's rows for a model of Archs.
func (m *Model) Rows(t testing.TB) []float32 {
	t.Helper()
	return floats(Read(t, "arch", m.Logits))
}

// floats reads raw little-endian float32.
func floats(data []byte) []float32 {
	rows := make([]float32, len(data)/4)
	for i := range rows {
		rows[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return rows
}

// Small writes a model of engine/testdata/small as NAME.gguf and returns its
// path. There are no reference results for it.
func Small(t testing.TB, name string) string {
	t.Helper()
	list := models(t, filepath.Join(testdata(), "small", "manifest.json"))
	for i := range list {
		if list[i].Name == name {
			return list[i].Save(t)
		}
	}
	t.Fatalf("no small model is called %q", name)
	return ""
}

// Smalls writes all small models to a folder.
func Smalls(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	list := models(t, filepath.Join(testdata(), "small", "manifest.json"))
	for i := range list {
		list[i].save(t, dir)
	}
	return dir
}

func models(t testing.TB, manifest string) []Model {
	t.Helper()
	var list struct{ Models []Model }
	if err := json.Unmarshal(read(t, manifest), &list); err != nil {
		t.Fatalf("%s: %v", manifest, err)
	}
	if len(list.Models) == 0 {
		t.Fatalf("%s lists no models", manifest)
	}
	for i := range list.Models {
		list.Models[i].dir = filepath.Dir(manifest)
	}
	return list.Models
}

// Save writes the model to a folder of the test, as NAME.gguf.
func (m *Model) Save(t testing.TB) string {
	t.Helper()
	return m.save(t, t.TempDir())
}

func (m *Model) save(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, m.Name+".gguf")
	if err := os.WriteFile(path, m.File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// File returns the bytes of the model.
func (m *Model) File(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(m.dir, filepath.FromSlash(m.Header))
	head := read(t, path)
	out, err := m.assemble(head)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// alignment is the alignment of tensors, relative to the start of the data.
const alignment = 32

func (m *Model) assemble(head []byte) (out []byte, err error) {
	tensors, err := infos(head)
	if err != nil {
		return nil, err
	}
	rules := make(map[string]rule, len(m.Tensors))
	for _, r := range m.Tensors {
		rules[r.name] = r
	}
	out = bytes.Clone(head)
	for _, x := range tensors {
		if at := len(head) + x.offset; at < len(out) {
			return nil, fmt.Errorf("%s overlaps the tensor before it", x.name)
		}
		out = append(out, make([]byte, len(head)+x.offset-len(out))...)
		values, given := m.Values[x.name]
		r, formula := rules[x.name]
		switch {
		case given == formula || given && len(values) != x.count:
			return nil, fmt.Errorf("%s: %d values, formula %v, want %d values or a formula", x.name, len(values), formula, x.count)
		case formula:
			values = r.values(m.Seed, x.count)
		}
		for _, v := range values {
			switch x.kind {
			case kindF32:
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			case kindF16:
				out = binary.LittleEndian.AppendUint16(out, half(v))
			default:
				return nil, fmt.Errorf("%s has type %d", x.name, x.kind)
			}
		}
	}
	return append(out, make([]byte, -(len(out)-len(head))&(alignment-1))...), nil
}

// values returns n values that are uniform in offset ± 2^exponent. They come
// from splitmix64, seeded with the FNV-1a hash of the name xor seed.
func (r rule) values(seed uint64, n int) []float32 {
	state := uint64(14695981039346656037)
	for _, b := range []byte(r.name) {
		state = (state ^ uint64(b)) * 1099511628211
	}
	state ^= seed
	scale := float32(math.Ldexp(1, r.exponent-23))
	out := make([]float32, n)
	for i := range out {
		state += 0x9E3779B97F4A7C15
		z := state
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		out[i] = r.offset + float32(float32(int(z>>40)-1<<23)*scale)
	}
	return out
}

// half converts a value to binary16, rounding towards zero.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign, exponent := uint16(bits>>16&0x8000), int(bits>>23&0xff)-127
	if exponent < -14 {
		return sign
	}
	return sign | uint16(min(exponent, 15)+15)<<10 | uint16(bits>>13&0x3ff)
}

// Types of tensors, by their numbers in the format.
const (
	kindF32 = 0
	kindF16 = 1
)

// info is a tensor's entry in a header.
type info struct {
	name          string
	count, offset int
	kind          uint32
}

// header reads a GGUF header. It does not use engine/gguf, so that the tests of
// engine/gguf can use this package.
type header struct {
	data []byte
	bad  bool
}

func (h *header) next(n uint64) []byte {
	if n > uint64(len(h.data)) {
		h.data, h.bad = nil, true // later reads return zeros
		return make([]byte, min(n, 8))
	}
	out := h.data[:n]
	h.data = h.data[n:]
	return out
}

func (h *header) u32() uint32  { return binary.LittleEndian.Uint32(h.next(4)) }
func (h *header) u64() uint64  { return binary.LittleEndian.Uint64(h.next(8)) }
func (h *header) text() string { return string(h.next(h.u64())) }

// skip skips a value of the metadata.
func (h *header) skip(kind uint32) {
	const text, array = 8, 9
	size := []uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}
	switch {
	case kind == text:
		h.text()
	case kind == array:
		kind, n := h.u32(), h.u64()
		for range n {
			if h.bad {
				return
			}
			h.skip(kind)
		}
	case int(kind) < len(size):
		h.next(size[kind])
	default:
		h.bad = true
	}
}

// infos reads the tensors of a header.
func infos(head []byte) (list []info, err error) {
	h := &header{data: head}
	if magic, version := h.u32(), h.u32(); magic != 0x46554747 || version != 3 {
		return nil, fmt.Errorf("magic %#x and version %d", magic, version)
	}
	tensors, keys := h.u64(), h.u64()
	for range keys {
		h.text()
		h.skip(h.u32())
		if h.bad {
			return nil, fmt.Errorf("the metadata ends early")
		}
	}
	for range tensors {
		x := info{name: h.text(), count: 1}
		for range h.u32() {
			x.count *= int(h.u64())
		}
		x.kind, x.offset = h.u32(), int(h.u64())
		if h.bad {
			return nil, fmt.Errorf("the tensor list ends early")
		}
		list = append(list, x)
	}
	return list, nil
}
