package gguf

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"godwit/engine/dtype"
)

// raw builds files by hand, so that a test can put an error anywhere.
type raw struct{ b []byte }

func header(version uint32, tensors, keys uint64) *raw {
	r := &raw{b: []byte(magic)}
	return r.u32(version).u64(tensors).u64(keys)
}

func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str(s string) *raw { r.b = appendText(r.b, s); return r }

func (r *raw) info(name string, typ uint32, offset uint64, dims ...uint64) *raw {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(typ).u64(offset)
}

// data pads to the alignment and adds n bytes.
func (r *raw) data(n int) *raw {
	for len(r.b)%defaultAlign != 0 {
		r.b = append(r.b, 0)
	}
	r.b = append(r.b, make([]byte, n)...)
	return r
}

// sample is a small valid model.
func sample(t testing.TB) ([]byte, []KV, []Tensor) {
	t.Helper()
	kv := []KV{
		{"general.architecture", "llama"},
		{"llama.block_count", uint32(2)},
		{"u8", uint8(200)},
		{"i8", int8(-3)},
		{"u16", uint16(60000)},
		{"i16", int16(-30000)},
		{"i32", int32(-5)},
		{"u64", uint64(1) << 63},
		{"i64", int64(-1) << 60},
		{"f32", float32(0.1)},
		{"f64", 0.1},
		{"yes", true},
		{"no", false},
		{"text", "Grüße\x00\xff"},
		{"empty", ""},
		{"tokenizer.ggml.tokens", []string{"a", "", "\xe2\x96\x81the", "<s>"}},
		{"tokenizer.ggml.scores", []float32{0, -1, -2.5, -3}},
		{"tokenizer.ggml.token_type", []int32{1, 1, 1, 3}},
		{"u8s", []uint8{1, 255}},
		{"i8s", []int8{-1, 1}},
		{"u16s", []uint16{1, 65535}},
		{"i16s", []int16{-1, 1}},
		{"u32s", []uint32{1, 1 << 31}},
		{"u64s", []uint64{1, 1 << 63}},
		{"i64s", []int64{-1, 1 << 62}},
		{"f64s", []float64{1, 0.5}},
		{"bools", []bool{true, false, true}},
		{"none", []string{}},
		{"zero", []uint32{}},
	}
	tensors := []Tensor{
		{Name: "token_embd.weight", Type: dtype.Q8_0, Shape: []int{64, 3}, Data: seq(64 / 32 * 34 * 3)},
		{Name: "norm", Type: dtype.F32, Shape: []int{5}, Data: seq(20)},
		{Name: "experts", Type: dtype.F16, Shape: []int{2, 3, 4, 5}, Data: seq(240)},
	}
	var out bytes.Buffer
	if err := Write(&out, kv, tensors); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), kv, tensors
}

func seq(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// Each hostile file has one error. Opening it must give an error of class is that
// contains every text in says.
type hostile struct {
	name string
	data []byte
	is   error
	says []string
}

func hostiles(t testing.TB) []hostile {
	f32 := uint32(dtype.F32)
	key := func(k Kind) *raw { return header(3, 0, 1).str("k").u32(uint32(k)) }
	arr := func(k string, elem Kind, n uint64) *raw {
		return header(3, 0, 1).str(k).u32(uint32(Array)).u32(uint32(elem)).u64(n)
	}
	valid, _, _ := sample(t)
	return []hostile{
		{"empty", nil, ErrNotGGUF, []string{"empty"}},
		{"short magic", []byte("GG"), ErrNotGGUF, nil},
		{"other magic", []byte("\x7fELF....................."), ErrNotGGUF, []string{"7f 45 4c 46"}},
		{"lfs pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0"), ErrNotGGUF, []string{"LFS"}},
		{"web page", []byte("\n<!DOCTYPE html><html>"), ErrNotGGUF, []string{"web page"}},
		{"zip", []byte("PK\x03\x04............"), ErrNotGGUF, []string{"PyTorch"}},
		{"safetensors", []byte("\x80\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{}}"), ErrNotGGUF, []string{"safetensors"}},
		{"ggjt", []byte("tjgg\x03\x00\x00\x00............"), ErrNotGGUF, []string{"GGML"}},
		{"only magic", []byte(magic), ErrTruncated, nil},
		{"version 1", header(1, 0, 0).b, ErrVersion, []string{"version 1"}},
		{"version 4", header(4, 0, 0).b, ErrVersion, []string{"version 4"}},
		{"version 0", header(0, 0, 0).b, ErrVersion, []string{"version 0"}},
		{"big-endian", header(3<<24, 0, 0).b, ErrVersion, []string{"big-endian", "version 3"}},
		{"no counts", []byte("GGUF\x03\x00\x00\x00"), ErrTruncated, nil},
		{"2^60 tensors", header(3, 1<<60, 0).b, ErrInvalid, []string{"tensors", "1152921504606846976"}},
		{"2^64-1 keys", header(3, 0, 1<<64-1).b, ErrInvalid, []string{"keys"}},
		{"more keys than bytes", header(3, 0, 1000).data(500).b, ErrTruncated, []string{"1000 keys"}},
		{"more tensors than bytes", header(3, 1000, 0).data(500).b, ErrTruncated, []string{"1000 tensors"}},
		{"key of 2^64-1 bytes", header(3, 0, 1).u64(1<<64 - 1).data(64).b, ErrTruncated, []string{"key 0 of 1"}},
		{"key of 2^63 bytes", header(3, 0, 1).u64(1 << 63).data(64).b, ErrTruncated, nil},
		{"empty key", header(3, 0, 1).str("").u32(0).data(16).b, ErrInvalid, []string{"0 bytes"}},
		{"key of 65536 bytes", header(3, 0, 1).str(string(make([]byte, 1<<16))).u32(0).data(1).b, ErrInvalid, []string{"65536"}},
		{"key twice", header(3, 0, 2).str("k").u32(uint32(Uint32)).u32(1).str("k").u32(uint32(Uint32)).u32(1).b, ErrInvalid, []string{`"k" occurs twice`}},
		{"unknown value type", key(13).u64(0).b, ErrInvalid, []string{`"k"`, "value type 13"}},
		{"string beyond the end", key(String).u64(100).data(8).b, ErrTruncated, []string{`"k"`, "100 bytes"}},
		{"string of 2^64-1", key(String).u64(1<<64 - 1).b, ErrTruncated, nil},
		{"value cut off", key(Uint64).u32(0).b, ErrTruncated, []string{`"k"`}},
		{"nested array", arr("k", Array, 1).u32(uint32(Uint8)).u64(1).b, ErrInvalid, []string{"arrays of arrays"}},
		{"unknown element type", arr("k", 99, 1).u64(0).b, ErrInvalid, []string{"value type 99"}},
		{"array of 2^61 u64", arr("k", Uint64, 1<<61).data(64).b, ErrTruncated, []string{"2305843009213693952 elements of uint64"}},
		{"array of 2^62 u32", arr("k", Uint32, 1<<62).data(64).b, ErrTruncated, nil},
		{"array of 2^64-1 u8", arr("k", Uint8, 1<<64-1).data(64).b, ErrTruncated, nil},
		{"array of 2^61 strings", arr("k", String, 1<<61).data(64).b, ErrTruncated, []string{"elements of string"}},
		{"array with a long string", arr("k", String, 2).str("a").u64(1 << 62).b, ErrTruncated, nil},
		{"tokens of numbers", arr("tokenizer.ggml.tokens", Uint32, 1).u32(0).b, ErrInvalid, []string{"tokenizer.ggml.tokens", "array of uint32", "want array of string"}},
		{"tokens a string", header(3, 0, 1).str("tokenizer.ggml.tokens").u32(uint32(String)).str("abc").b, ErrInvalid, []string{"is string"}},
		{"merges of bools", arr("tokenizer.ggml.merges", Bool, 1).data(1).b, ErrInvalid, []string{"tokenizer.ggml.merges"}},
		{"scores of strings", arr("tokenizer.ggml.scores", String, 1).str("x").b, ErrInvalid, []string{"tokenizer.ggml.scores"}},
		{"scores of integers", arr("tokenizer.ggml.scores", Int32, 1).u32(0).b, ErrInvalid, []string{"tokenizer.ggml.scores"}},
		{"token types of floats", arr("tokenizer.ggml.token_type", Float32, 1).u32(0).b, ErrInvalid, []string{"tokenizer.ggml.token_type"}},
		{"alignment 0", header(3, 0, 1).str(alignmentKey).u32(uint32(Uint32)).u32(0).b, ErrInvalid, []string{"is 0"}},
		{"alignment 48", header(3, 0, 1).str(alignmentKey).u32(uint32(Uint32)).u32(48).b, ErrInvalid, []string{"is 48"}},
		{"alignment 4", header(3, 0, 1).str(alignmentKey).u32(uint32(Uint32)).u32(4).b, ErrInvalid, []string{"is 4"}},
		{"alignment 2^31", header(3, 0, 1).str(alignmentKey).u32(uint32(Uint32)).u32(1 << 31).b, ErrInvalid, []string{"is 2147483648"}},
		{"alignment -32", header(3, 0, 1).str(alignmentKey).u32(uint32(Int32)).u32(1<<32 - 32).b, ErrInvalid, []string{"is -32"}},
		{"alignment a string", header(3, 0, 1).str(alignmentKey).u32(uint32(String)).str("32").b, ErrInvalid, []string{`is "32"`}},
		{"5 dimensions", header(3, 1, 0).info("t", f32, 0, 1, 1, 1, 1, 1).data(32).b, ErrInvalid, []string{`"t"`, "5 dimensions"}},
		{"2^32-1 dimensions", header(3, 1, 0).str("t").u32(1<<32 - 1).data(64).b, ErrInvalid, []string{"4294967295 dimensions"}},
		{"length 0", header(3, 1, 0).info("t", f32, 0, 4, 0).data(32).b, ErrInvalid, []string{`"t"`, "length 0 in dimension 1"}},
		{"length 2^63", header(3, 1, 0).info("t", f32, 0, 1<<63).data(32).b, ErrInvalid, []string{"length 9223372036854775808"}},
		{"product wraps to 0", header(3, 1, 0).info("t", f32, 0, 1<<32, 1<<32).data(32).b, ErrInvalid, []string{"does not fit"}},
		{"product wraps to 32 bytes", header(3, 1, 0).info("t", f32, 0, 8, 1<<62, 4).data(32).b, ErrInvalid, []string{"does not fit"}},
		{"size wraps", header(3, 1, 0).info("t", f32, 0, 1<<62).data(32).b, ErrInvalid, []string{"does not fit"}},
		{"elements wrap", header(3, 1, 0).info("t", uint32(dtype.Q1_0), 0, 1<<62, 8).data(32).b, ErrInvalid, []string{"does not fit"}},
		{"odd row", header(3, 1, 0).info("t", uint32(dtype.Q4_K), 0, 128).data(256).b, ErrInvalid, []string{"128 values", "Q4_K blocks of 256"}},
		{"unknown type", header(3, 1, 0).info("t", 999, 0, 1).data(32).b, ErrTensorType, []string{`"t"`, "999"}},
		{"retired type", header(3, 1, 0).info("t", 31, 0, 32).data(32).b, ErrTensorType, []string{"Q4_0_4_4"}},
		{"empty tensor name", header(3, 1, 0).info("", f32, 0, 1).data(32).b, ErrInvalid, []string{"name of 0 bytes"}},
		{"long tensor name", header(3, 1, 0).info(strings.Repeat("t", maxName+1), f32, 0, 1).data(32).b, ErrInvalid, []string{"name of 1025 bytes"}},
		{"tensor twice", header(3, 2, 0).info("t", f32, 0, 1).info("t", f32, 32, 1).data(64).b, ErrInvalid, []string{`"t" occurs twice`}},
		{"odd offset", header(3, 1, 0).info("t", f32, 16, 1).data(64).b, ErrInvalid, []string{`"t"`, "offset 16"}},
		{"offset beyond the end", header(3, 1, 0).info("t", f32, 1<<20, 1).data(64).b, ErrTruncated, []string{`"t"`, "1048576"}},
		{"offset wraps", header(3, 1, 0).info("t", f32, 1<<64-32, 16).data(64).b, ErrTruncated, []string{`"t"`}},
		{"tensor cut off", header(3, 2, 0).info("a", f32, 0, 8).info("b", f32, 32, 8).data(63).b, ErrTruncated, []string{`"b"`, "32 bytes", "has 31"}},
		{"no data at all", header(3, 1, 0).info("t", f32, 0, 1).b, ErrTruncated, []string{`"t"`}},
		{"overlap", header(3, 2, 0).info("a", f32, 32, 8).info("b", f32, 0, 9).data(64).b, ErrInvalid, []string{`"b" and "a" overlap`}},
		{"same place", header(3, 2, 0).info("a", f32, 0, 8).info("b", f32, 0, 8).data(64).b, ErrInvalid, []string{"overlap"}},
		{"table cut off", header(3, 1, 0).str("some.tensor").u32(2).u64(4).u32(0).b, ErrTruncated, []string{"some.tensor"}},
		{"last byte missing", valid[:len(valid)-33], ErrTruncated, []string{"experts"}},
	}
}
