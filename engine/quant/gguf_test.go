package quant_test

import (
	"encoding/binary"
	"testing"

	"godwit/engine/dtype"
)

type tensor struct {
	typ   dtype.Type
	elems int
	data  []byte // to the next tensor, so with the padding
}

// readGGUF reads the tensors of a small well-formed file.
func readGGUF(t testing.TB, b []byte) map[string]tensor {
	t.Helper()
	at := 24
	u32 := func() uint32 { at += 4; return binary.LittleEndian.Uint32(b[at-4:]) }
	u64 := func() int { at += 8; return int(binary.LittleEndian.Uint64(b[at-8:])) }
	str := func() string { n := u64(); at += n; return string(b[at-n : at]) }
	var skip func(kind uint32)
	skip = func(kind uint32) {
		switch kind {
		case 8:
			str()
		case 9:
			kind := u32()
			for range u64() {
				skip(kind)
			}
		default:
			at += [...]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}[kind]
		}
	}
	tensors, keys := int(binary.LittleEndian.Uint64(b[8:])), int(binary.LittleEndian.Uint64(b[16:]))
	for range keys {
		str()
		skip(u32())
	}
	names, offsets := make([]string, tensors), make([]int, tensors+1)
	out := map[string]tensor{}
	for i := range tensors {
		x := tensor{elems: 1}
		names[i] = str()
		for range u32() {
			x.elems *= u64()
		}
		x.typ = dtype.Type(u32())
		offsets[i] = u64()
		out[names[i]] = x
	}
	start := (at + 31) &^ 31
	offsets[tensors] = len(b) - start
	for i, n := range names {
		x := out[n]
		x.data = b[start+offsets[i] : start+offsets[i+1]]
		out[n] = x
	}
	return out
}
