package gguf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"godwit/engine/dtype"
)

const (
	magic        = "GGUF"
	defaultAlign = 32
	alignmentKey = "general.alignment"

	// These limits are far above real models, which have about 60 keys and 2,000
	// tensors, or up to 50,000 tensors if each expert has its own. They prevent a
	// damaged file from claiming a multiple of its size in memory.
	maxKeys    = 1 << 16
	maxTensors = 1 << 18
	maxKey     = 1<<16 - 1 // maximum bytes of a key, as in the specification
	maxName    = 1 << 10   // maximum bytes of a tensor's name; the specification allows 64
	maxValues  = 1 << 29   // maximum bytes of all keys and values; large vocabularies take 20 MB

	minKeyBytes    = 8 + 1 + 4 + 1     // length, one letter, kind, and one byte
	minTensorBytes = 8 + 1 + 4 + 4 + 8 // length, one letter, number of dimensions, one length, type, and offset
)

// head is the result of parsing everything before the weights.
type head struct {
	version uint32
	kv      *Metadata
	tensors []Tensor
	size    int // number of bytes before the end of the tensor table
}

// cursor reads little-endian values from a file in memory.
type cursor struct {
	data []byte
	off  int
}

func (c *cursor) rest() int { return len(c.data) - c.off }

// need reports an error unless n more bytes are available.
func (c *cursor) need(n uint64) error {
	if n > uint64(c.rest()) {
		return fmt.Errorf("%w: %d bytes needed at offset %d, %d left", ErrTruncated, n, c.off, c.rest())
	}
	return nil
}

func (c *cursor) uint32() (uint32, error) {
	if err := c.need(4); err != nil {
		return 0, err
	}
	c.off += 4
	return binary.LittleEndian.Uint32(c.data[c.off-4:]), nil
}

func (c *cursor) uint64() (uint64, error) {
	if err := c.need(8); err != nil {
		return 0, err
	}
	c.off += 8
	return binary.LittleEndian.Uint64(c.data[c.off-8:]), nil
}

// bytes returns the next n bytes without copying them.
func (c *cursor) bytes(n uint64) ([]byte, error) {
	if err := c.need(n); err != nil {
		return nil, err
	}
	b := c.data[c.off : c.off+int(n) : c.off+int(n)]
	c.off += int(n)
	return b, nil
}

// text returns the next string. In the file, a 64-bit length precedes its
// bytes.
func (c *cursor) text() ([]byte, error) {
	n, err := c.uint64()
	if err != nil {
		return nil, err
	}
	return c.bytes(n)
}

// parse reads header, metadata and tensor table and locates the tensors' data.
func parse(data []byte) (*head, error) {
	c := &cursor{data: data}
	version, err := c.version()
	if err != nil {
		return nil, err
	}
	nTensors, err := c.count("tensors", maxTensors)
	if err != nil {
		return nil, err
	}
	nKeys, err := c.count("metadata keys", maxKeys)
	if err != nil {
		return nil, err
	}
	if need := uint64(nKeys)*minKeyBytes + uint64(nTensors)*minTensorBytes; need > uint64(c.rest()) {
		return nil, fmt.Errorf("%w: %d keys and %d tensors need at least %d bytes, %d left", ErrTruncated, nKeys, nTensors, need, c.rest())
	}
	h := &head{version: version}
	if h.kv, err = c.metadata(nKeys); err != nil {
		return nil, err
	}
	align, err := alignment(h.kv)
	if err != nil {
		return nil, err
	}
	offsets := make([]uint64, nTensors)
	sizes := make([]uint64, nTensors)
	h.tensors = make([]Tensor, nTensors)
	for i := range h.tensors {
		if offsets[i], sizes[i], err = c.tensor(&h.tensors[i]); err != nil {
			return nil, fmt.Errorf("tensor %d of %d: %w", i, nTensors, err)
		}
	}
	h.size = c.off
	return h, locate(data, h, align, offsets, sizes)
}

// version checks the magic number and the version. Its error explains what is not
// supported.
func (c *cursor) version() (uint32, error) {
	if len(c.data) < 4 || string(c.data[:4]) != magic {
		return 0, fmt.Errorf("%w: %s", ErrNotGGUF, guess(c.data))
	}
	c.off = 4
	v, err := c.uint32()
	switch {
	case err != nil:
		return 0, err
	case v == 2 || v == 3:
		return v, nil
	case v == 1:
		return 0, fmt.Errorf("%w: version 1 has not been written since 2023; convert the model again", ErrVersion)
	case v != 0 && v&0xffff == 0:
		return 0, fmt.Errorf("%w: big-endian file (version %d); convert the model again as little-endian", ErrVersion, bits.ReverseBytes32(v))
	}
	return 0, fmt.Errorf("%w: version %d, 2 and 3 are supported", ErrVersion, v)
}

// guess describes the apparent type of a file that is not GGUF.
func guess(data []byte) string {
	start := string(data[:min(len(data), 64)])
	switch {
	case start == "":
		return "the file is empty"
	case strings.HasPrefix(start, "version https://git-lfs"):
		return "a Git LFS pointer; fetch the model itself"
	case strings.HasPrefix(start, "PK\x03\x04"):
		return "a zip archive or PyTorch checkpoint"
	case len(start) > 9 && start[8] == '{':
		return "a safetensors checkpoint, it seems; convert it to GGUF first"
	case strings.HasPrefix(start, "lmgg"), strings.HasPrefix(start, "fmgg"), strings.HasPrefix(start, "tjgg"):
		return "a GGML file from before GGUF; convert the model again"
	case strings.HasPrefix(strings.TrimSpace(start), "<"):
		return "a web page; the download went wrong"
	}
	return fmt.Sprintf("it begins with % x", start[:min(len(start), 4)])
}

func (c *cursor) count(what string, limit uint64) (int, error) {
	n, err := c.uint64()
	if err != nil {
		return 0, err
	}
	if n > limit {
		return 0, fmt.Errorf("%w: the header counts %d %s, the limit is %d", ErrInvalid, n, what, limit)
	}
	return int(n), nil
}

func (c *cursor) metadata(n int) (*Metadata, error) {
	m := &Metadata{index: make(map[string]int, n)}
	total := 0
	for i := range n {
		key, err := c.text()
		if err != nil {
			return nil, fmt.Errorf("metadata key %d of %d: %w", i, n, err)
		}
		if len(key) == 0 || len(key) > maxKey {
			return nil, fmt.Errorf("%w: metadata key %d has %d bytes, 1 to %d are allowed", ErrInvalid, i, len(key), maxKey)
		}
		k := string(key)
		if _, twice := m.index[k]; twice {
			return nil, fmt.Errorf("%w: key %q occurs twice", ErrInvalid, k)
		}
		v, err := c.value()
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", k, err)
		}
		if total += len(k) + len(v.raw); total > maxValues {
			return nil, fmt.Errorf("%w: keys and values up to %.80q take %d bytes, the limit is %d", ErrInvalid, k, total, maxValues)
		}
		// Values are used as long as the file is open. A copy stays valid if the
		// file is truncated and its mapped pages disappear.
		v.raw = bytes.Clone(v.raw)
		m.index[k] = len(m.keys)
		m.keys = append(m.keys, k)
		m.values = append(m.values, v)
	}
	return m, checkTypes(m)
}

func (c *cursor) kind() (Kind, error) {
	k, err := c.uint32()
	if err == nil && k >= uint32(len(kinds)) {
		err = fmt.Errorf("%w: unknown value type %d", ErrInvalid, k)
	}
	return Kind(k), err
}

func (c *cursor) value() (v Value, err error) {
	if v.Kind, err = c.kind(); err != nil {
		return v, err
	}
	switch v.Kind {
	case Array:
		return c.array()
	case String:
		v.raw, err = c.text()
	default:
		v.raw, err = c.bytes(uint64(v.Kind.size()))
	}
	return v, err
}

func (c *cursor) array() (v Value, err error) {
	v.IsArray = true
	if v.Kind, err = c.kind(); err != nil {
		return v, err
	}
	if v.Kind == Array {
		return v, fmt.Errorf("%w: arrays of arrays are not supported", ErrInvalid)
	}
	n, err := c.uint64()
	if err != nil {
		return v, err
	}
	least := uint64(max(v.Kind.size(), 1))
	if v.Kind == String {
		least = 8
	}
	if n > uint64(c.rest())/least {
		return v, fmt.Errorf("%w: an array of %d elements of %v at offset %d, %d bytes left", ErrTruncated, n, v.Kind, c.off, c.rest())
	}
	v.n = int(n)
	if v.Kind != String {
		v.raw, err = c.bytes(n * least)
		return v, err
	}
	start := c.off
	for range v.n {
		if _, err := c.text(); err != nil {
			return v, err
		}
	}
	v.raw = c.data[start:c.off:c.off]
	return v, nil
}

// arrays lists the arrays that a tokenizer reads without checking their type.
var arrays = []struct {
	key  string
	want string
	ok   func(Kind) bool
}{
	{"tokenizer.ggml.tokens", "string", func(k Kind) bool { return k == String }},
	{"tokenizer.ggml.merges", "string", func(k Kind) bool { return k == String }},
	{"tokenizer.ggml.scores", "float32", func(k Kind) bool { return k == Float32 || k == Float64 }},
	{"tokenizer.ggml.token_type", "int32", Kind.integer},
}

func checkTypes(m *Metadata) error {
	for _, a := range arrays {
		v, ok := m.Value(a.key)
		if !ok || v.IsArray && a.ok(v.Kind) {
			continue
		}
		got := v.Kind.String()
		if v.IsArray {
			got = "array of " + got
		}
		return fmt.Errorf("%w: key %q is %s, want array of %s", ErrInvalid, a.key, got, a.want)
	}
	return nil
}

// alignment returns the alignment of the tensor data. The specification
// requires a power of two that is at least 8.
func alignment(m *Metadata) (uint64, error) {
	v, ok := m.Value(alignmentKey)
	if !ok {
		return defaultAlign, nil
	}
	n, ok := v.Uint()
	if !ok || n < 8 || n > 1<<30 || n&(n-1) != 0 {
		return 0, fmt.Errorf("%w: %s is %v, want a power of two from 8 to 2^30", ErrInvalid, alignmentKey, v)
	}
	return n, nil
}

// tensor reads one table entry. The offset is relative to the start of the data
// section.
func (c *cursor) tensor(t *Tensor) (offset, size uint64, err error) {
	name, err := c.text()
	if err != nil {
		return 0, 0, err
	}
	if len(name) == 0 || len(name) > maxName {
		return 0, 0, fmt.Errorf("%w: name of %d bytes, 1 to %d are allowed", ErrInvalid, len(name), maxName)
	}
	t.Name = string(name)
	if offset, size, err = c.entry(t); err != nil {
		err = fmt.Errorf("%q: %w", t.Name, err)
	}
	return offset, size, err
}

func (c *cursor) entry(t *Tensor) (offset, size uint64, err error) {
	dims, err := c.uint32()
	if err != nil {
		return 0, 0, err
	}
	if dims > 4 {
		return 0, 0, fmt.Errorf("%w: %d dimensions, at most 4 are allowed", ErrInvalid, dims)
	}
	t.Shape = make([]int, dims, 4)
	for i := range t.Shape {
		n, err := c.uint64()
		if err != nil {
			return 0, 0, err
		}
		if n == 0 || n > math.MaxInt {
			return 0, 0, fmt.Errorf("%w: length %d in dimension %d", ErrInvalid, n, i)
		}
		t.Shape[i] = int(n)
	}
	if dims == 0 { // a scalar, as NumPy writes it
		t.Shape = append(t.Shape, 1)
	}
	id, err := c.uint32()
	if err != nil {
		return 0, 0, err
	}
	var ok bool
	if t.Type, ok = dtype.FromGGML(id); !ok {
		return 0, 0, fmt.Errorf("%w: %s", ErrTensorType, typeName(id))
	}
	if size, err = byteSize(t.Type, t.Shape); err != nil {
		return 0, 0, err
	}
	offset, err = c.uint64()
	return offset, size, err
}

// typeName names tensor types that ggml has removed, so that users can
// distinguish an old file from a damaged one.
func typeName(id uint32) string {
	retired := map[uint32]string{
		4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
		36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
	}
	if name, ok := retired[id]; ok {
		return fmt.Sprintf("%d (%s, removed from GGUF; use a file with the plain type)", id, name)
	}
	return fmt.Sprintf("%d; the file is newer than this program, or damaged", id)
}

// byteSize returns the size of a tensor. Every length is at least 1.
func byteSize(t dtype.Type, shape []int) (uint64, error) {
	if shape[0]%t.Elems() != 0 {
		return 0, fmt.Errorf("%w: rows of %d values do not fill %v blocks of %d", ErrInvalid, shape[0], t, t.Elems())
	}
	hi, size := bits.Mul64(uint64(shape[0]/t.Elems()), uint64(t.Bytes()))
	elems := uint64(shape[0])
	for _, n := range shape[1:] {
		if hi == 0 {
			hi, size = bits.Mul64(size, uint64(n))
		}
		if hi == 0 {
			hi, elems = bits.Mul64(elems, uint64(n))
		}
	}
	if hi != 0 || size > math.MaxInt || elems > math.MaxInt {
		return 0, fmt.Errorf("%w: shape %v does not fit in memory", ErrInvalid, shape)
	}
	return size, nil
}

// locate finds the data of the tensors. The data must be aligned and inside the
// file, and must not overlap.
func locate(data []byte, h *head, align uint64, offsets, sizes []uint64) error {
	start := (uint64(h.size) + align - 1) &^ (align - 1)
	room := uint64(len(data)) - min(start, uint64(len(data)))
	order := make([]int, len(h.tensors))
	for i := range h.tensors {
		t := &h.tensors[i]
		order[i] = i
		if offsets[i]%align != 0 {
			return fmt.Errorf("%w: tensor %q is at offset %d, which is not a multiple of %d", ErrInvalid, t.Name, offsets[i], align)
		}
		if offsets[i] > room || sizes[i] > room-offsets[i] {
			return fmt.Errorf("%w: tensor %q needs %d bytes at offset %d, the file has %d there; fetch it again",
				ErrTruncated, t.Name, sizes[i], offsets[i], room-min(room, offsets[i]))
		}
		from := start + offsets[i]
		to := from + sizes[i]
		t.Data = data[from:to:to]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(offsets[a], offsets[b]) })
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if offsets[a]+sizes[a] > offsets[b] {
			return fmt.Errorf("%w: tensors %q and %q overlap", ErrInvalid, h.tensors[a].Name, h.tensors[b].Name)
		}
	}
	return nil
}
