package gguf

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"godwit/engine/dtype"
)

func save(t *testing.T, path string, kv []KV, tensors []Tensor) {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, kv, tensors); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// splits writes a model of three parts and returns their paths. edit may
// change the keys of a part before it is written.
func splits(t *testing.T, edit func(i int, kv []KV) []KV) []string {
	t.Helper()
	names, ok := SplitParts(filepath.Join(t.TempDir(), "m-00001-of-00003.gguf"))
	if !ok || len(names) != 3 {
		t.Fatalf("parts are %v", names)
	}
	for i, name := range names {
		kv := []KV{{splitNoKey, uint16(i)}, {splitCountKey, uint16(3)}, {splitTensorsKey, int32(3)}}
		if i == 0 {
			kv = append(kv, KV{"general.architecture", "llama"})
		}
		if edit != nil {
			kv = edit(i, kv)
		}
		save(t, name, kv, []Tensor{{Name: fmt.Sprintf("t%d", i), Type: dtype.F32, Shape: []int{2048}, Data: seq(8192 + i)[i:]}})
	}
	return names
}

func TestSplit(t *testing.T) {
	names := splits(t, nil)
	for _, open := range []func(string) (*File, error){Open, Load} {
		for _, name := range names {
			f, err := open(name)
			if err != nil {
				t.Fatal(err)
			}
			if f.Arch() != "llama" || len(f.Tensors) != 3 || len(f.Paths()) != 3 || f.Paths()[2] != names[2] {
				t.Errorf("%s: architecture %q, %d tensors, paths %v", name, f.Arch(), len(f.Tensors), f.Paths())
			}
			if x, ok := f.Tensor("t2"); !ok || !bytes.Equal(x.Data, seq(8194)[2:]) {
				t.Errorf("%s: tensor of the last part is %v, %v", name, x, ok)
			}
			f.DropPages()
			if x, _ := f.Tensor("t1"); !bytes.Equal(x.Data, seq(8193)[1:]) {
				t.Errorf("%s: data is lost with the pages", name)
			}
			other := seq(1 << 16)
			f.Drop(other) // this memory is not the file's
			x, _ := f.Tensor("t2")
			f.Drop(x.Data)
			f.Drop(nil)
			if !bytes.Equal(x.Data, seq(8194)[2:]) || !bytes.Equal(other, seq(1<<16)) {
				t.Errorf("%s: data is lost with some pages", name)
			}
			var size int64
			for _, name := range names {
				info, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				size += info.Size()
			}
			if f.Size() != size {
				t.Errorf("size is %d, want %d", f.Size(), size)
			}
			if err := errors.Join(f.Close(), f.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestSplitErrors(t *testing.T) {
	set := func(part int, key string, v any) func(int, []KV) []KV {
		return func(i int, kv []KV) []KV {
			for j := range kv {
				if i == part && kv[j].Key == key {
					kv[j].Value = v
				}
			}
			return kv
		}
	}
	for _, c := range []struct {
		name  string
		edit  func(int, []KV) []KV
		after func(names []string) error
		says  string
	}{
		{"wrong number", set(1, splitNoKey, uint16(2)), nil, "00002-of-00003.gguf says split.no 2, want 1"},
		{"negative number", set(2, splitNoKey, int16(-1)), nil, "split.no"},
		{"wrong count", set(2, splitCountKey, uint16(4)), nil, "split.count 4, want 3"},
		{"wrong total", set(0, splitTensorsKey, int32(5)), nil, "split.tensors.count is 5, but the parts have 3"},
		{"count against name", set(0, splitCountKey, uint16(7)), nil, "one of 7 parts"},
		{"huge count", set(0, splitCountKey, uint64(1)<<63), nil, "split.count is 9223372036854775808, at most 512"},
		{"missing part", nil, func(n []string) error { return os.Remove(n[1]) }, "m-00002-of-00003.gguf is missing"},
		{"missing parts", nil, func(n []string) error { return errors.Join(os.Remove(n[1]), os.Remove(n[2])) }, "2 of 3 parts are missing: m-00002-of-00003.gguf, m-00003-of-00003.gguf"},
		{"missing first parts", nil, func(n []string) error { return errors.Join(os.Remove(n[0]), os.Remove(n[1])) }, "2 of 3 parts are missing: m-00001-of-00003.gguf, m-00002-of-00003.gguf"},
		{"renamed", nil, func(n []string) error {
			n0 := n[0]
			n[0] = filepath.Join(filepath.Dir(n0), "model.gguf")
			return os.Rename(n0, n[0])
		}, "must be named like"},
		{"damaged part", nil, func(n []string) error { return os.Truncate(n[2], 4000) }, `m-00003-of-00003.gguf: GGUF file is cut short: tensor "t2"`},
		{"same tensor", nil, func(n []string) error {
			b, err := os.ReadFile(n[1])
			if err != nil {
				return err
			}
			return os.WriteFile(n[1], bytes.Replace(b, []byte("t1"), []byte("t0"), 1), 0o644)
		}, `tensor "t0" occurs twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := splits(t, c.edit)
			if c.after != nil {
				if err := c.after(names); err != nil {
					t.Fatal(err)
				}
			}
			open := names[0]
			if c.name == "missing first parts" {
				open = names[2]
			}
			if f, err := Open(open); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want %q; %v", err, c.says, f)
			}
		})
	}
}

func TestSplitParts(t *testing.T) {
	for _, name := range []string{"m-00001-of-00513.gguf", "m.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-1-of-3.gguf", "m-00001-of-00003.bin"} {
		if parts, ok := SplitParts(name); ok {
			t.Errorf("%s has parts %v", name, parts)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.gguf")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		is   error
	}{
		{filepath.Join(dir, "none.gguf"), os.ErrNotExist},
		{dir, ErrNotGGUF},
		{empty, ErrNotGGUF},
	} {
		for _, open := range []func(string) (*File, error){Open, Load} {
			_, err := open(c.path)
			if !errors.Is(err, c.is) || strings.Count(err.Error(), c.path) != 1 {
				t.Errorf("%s: error is %v, want %v and the path once", c.path, err, c.is)
			}
		}
	}
}

// Identity matches its documentation, however the file was opened.
func TestIdentity(t *testing.T) {
	data, _, _ := sample(t)
	big := Tensor{Name: "big", Type: dtype.I8, Shape: []int{10000}, Data: seq(10000)}
	path := filepath.Join(t.TempDir(), "m.gguf")
	save(t, path, []KV{{"general.architecture", "x"}}, []Tensor{big})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := bytes.Index(b, []byte("big")) + 3 + 4 + 8 + 4 + 8
	want := sha256.Sum256(append(b[:table:table], big.Data[:4096]...))
	if f.Identity() != want {
		t.Error("identity is not the hash of the head and 4096 bytes of the tensor")
	}
	id := func(b []byte) [32]byte {
		f, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		return f.Identity()
	}
	before := id(data)
	data[len(data)-100]++ // in the last tensor
	if id(data) == before {
		t.Error("identity does not see a changed weight")
	}
}

// Metadata remains valid when another process truncates the file while a model
// runs.
func TestMetadataOutlivesFile(t *testing.T) {
	data, _, _ := sample(t)
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	before := map[string]string{}
	for k, v := range f.KV.All() {
		before[k] = v.String()
	}
	if err := os.Truncate(path, 0); err != nil {
		if runtime.GOOS == "windows" {
			t.Skipf("Windows keeps mapped files whole: %v", err)
		}
		t.Fatal(err)
	}
	for k, v := range f.KV.All() {
		if v.String() != before[k] {
			t.Errorf("%s: %s, was %s", k, v, before[k])
		}
	}
}
