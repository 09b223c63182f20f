package gguf

import (
	"bytes"
	"testing"
)

// FuzzParse checks that no input causes a panic. The tensors of a file that parses
// lie inside it, every getter and String work, and writing and reading it again
// gives the same file.
func FuzzParse(f *testing.F) {
	valid, _, _ := sample(f)
	f.Add(valid)
	for _, h := range hostiles(f) {
		f.Add(h.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		for k, v := range file.KV.All() {
			_, _ = v.String(), v.Any()
			file.KV.Strings(k)
			file.KV.Ints(k)
			file.KV.Floats(k)
			file.KV.Bools(k)
		}
		for i := range file.Tensors {
			x := &file.Tensors[i]
			if want := x.Rows() * x.Type.RowBytes(x.Shape[0]); len(x.Data) != want {
				t.Fatalf("%v has %d bytes, want %d", x, len(x.Data), want)
			}
		}
		var out bytes.Buffer
		var kv []KV
		for k, v := range file.KV.All() {
			kv = append(kv, KV{k, v})
		}
		if err := Write(&out, kv, file.Tensors); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if again.KV.Len() != file.KV.Len() || len(again.Tensors) != len(file.Tensors) {
			t.Fatalf("%d keys and %d tensors, before %d and %d",
				again.KV.Len(), len(again.Tensors), file.KV.Len(), len(file.Tensors))
		}
		for i := range file.Tensors {
			if a, b := &file.Tensors[i], &again.Tensors[i]; a.String() != b.String() || !bytes.Equal(a.Data, b.Data) {
				t.Fatalf("%v became %v", a, b)
			}
		}
	})
}
