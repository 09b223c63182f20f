// Package gguf reads and writes GGUF model files, versions 2 and 3.
//
//	f, err := gguf.Open("model.gguf") // maps the file, and its other splits
//	defer f.Close()
//	n, ok := f.KV.Uint(f.Arch() + ".block_count")
//	t, ok := f.Tensor("token_embd.weight")
//
// Open touches the header, the metadata and the tensor table only; tensor
// pages come from the disk when they are first read. A hostile or damaged file
// is an error that names what is wrong: every count and length is checked
// against the size of the file before anything is allocated for it.
//
// A file that another process shortens while it is mapped loses pages. Metadata is
// copied at Open; who reads Data does so in fault.Guard, which turns the signal
// into an error that names the file.
//
// Source: the GGUF specification, docs/gguf.md of the ggml project.
package gguf

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"godwit/engine/dtype"
	"godwit/engine/fault"
)

// The classes of errors; the text that follows has the numbers.
var (
	ErrNotGGUF    = errors.New("not a GGUF file")
	ErrVersion    = errors.New("unsupported GGUF version")
	ErrTruncated  = errors.New("GGUF file is cut short")
	ErrInvalid    = errors.New("invalid GGUF file")
	ErrTensorType = errors.New("unknown tensor type")
	ErrSplit      = errors.New("split GGUF file is incomplete")
)

// File is an open model: one GGUF file, or all parts of a split one.
// Its methods may be called from several goroutines, Close excepted.
type File struct {
	Version uint32    // 2 or 3
	KV      *Metadata // metadata of the first part
	Tensors []Tensor  // in file order, part after part

	parts    []part
	byName   map[string]int
	identity func() ([32]byte, error)
}

// Tensor is one entry of the tensor table.
type Tensor struct {
	Name  string
	Type  dtype.Type
	Shape []int  // one to four lengths in ggml order: Shape[0] is the row length
	Data  []byte // aliases the mapping; read-only, and gone after Close
}

// Rows is the number of rows: the product of all lengths after the first.
func (t *Tensor) Rows() int {
	n := 1
	for _, d := range t.Shape[1:] {
		n *= d
	}
	return n
}

// String gives name, type and shape, as in "output.weight Q8_0 [64 512]".
func (t *Tensor) String() string { return fmt.Sprintf("%s %v %v", t.Name, t.Type, t.Shape) }

// part is one file of a split model.
type part struct {
	path    string
	data    []byte
	header  int // bytes of header, metadata and tensor table
	tensors []Tensor
	unmap   func() error // nil when data lies in ordinary memory
}

// Tensor finds a tensor by name. The result points into f.Tensors.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// Arch is general.architecture, or "" where the file does not say.
func (f *File) Arch() string {
	s, _ := f.KV.String("general.architecture")
	return s
}

// Size is the length in bytes of all parts together.
func (f *File) Size() int64 {
	var n int64
	for _, p := range f.parts {
		n += int64(len(p.data))
	}
	return n
}

// Paths lists the files behind f, in order; empty after Parse.
func (f *File) Paths() []string {
	var paths []string
	for _, p := range f.parts {
		if p.path != "" {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// Identity is the SHA-256 of header, metadata and tensor table followed by the
// first 4 KiB of each tensor, part after part. It tells models apart without
// reading the weights; it is no proof that they are undamaged. That of a file
// which cannot be read any more equals no other; see [File.Gone].
func (f *File) Identity() [32]byte {
	id, _ := f.identity()
	return id
}

// Gone is the error of a file that was cut short before Identity had read it.
func (f *File) Gone() error {
	_, err := f.identity()
	return err
}

func (f *File) hash() (id [32]byte, err error) {
	err = fault.Guard(func() error {
		h := sha256.New()
		for _, p := range f.parts {
			h.Write(p.data[:p.header])
			for _, t := range p.tensors {
				h.Write(t.Data[:min(len(t.Data), 4096)])
			}
		}
		id = [32]byte(h.Sum(nil))
		return nil
	})
	if err != nil {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id, err
}

// DropPages tells the system that the mapped pages are not needed now: they
// leave memory and come back from the disk when read. It does nothing where the
// system has no such call or the file was read rather than mapped.
func (f *File) DropPages() {
	for _, p := range f.parts {
		if p.unmap != nil {
			dropPages(p.data)
		}
	}
}

// Drop is DropPages for the pages that lie wholly in data, a part of the
// file's bytes; other memory is left alone. It may be called by several
// goroutines at once.
func (f *File) Drop(data []byte) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for _, p := range f.parts {
		if p.unmap == nil {
			continue
		}
		start := uintptr(unsafe.Pointer(unsafe.SliceData(p.data)))
		if from < start || from+uintptr(len(data)) > start+uintptr(len(p.data)) {
			continue
		}
		page := os.Getpagesize()
		first := (int(from-start) + page - 1) &^ (page - 1)
		last := (int(from-start) + len(data)) &^ (page - 1)
		if first < last {
			dropPages(p.data[first:last])
		}
	}
}

// Lock keeps the file in physical memory (mlock). The error says how much was
// asked for; systems limit it per process.
func (f *File) Lock() error {
	for _, p := range f.parts {
		if err := lockPages(p.data); err != nil {
			return fmt.Errorf("lock %d bytes of %s in memory (raise the limit of locked memory, ulimit -l): %w", len(p.data), p.path, err)
		}
	}
	return nil
}

// Close ends the mapping. All Data, and all strings that Metadata.Strings and
// Value.Strings gave, are invalid afterwards. A second Close does nothing.
func (f *File) Close() error {
	var errs []error
	for i := range f.parts {
		if unmap := f.parts[i].unmap; unmap != nil {
			errs = append(errs, unmap())
		}
	}
	f.parts, f.Tensors, f.byName, f.KV = nil, nil, nil, new(Metadata)
	return errors.Join(errs...)
}

// newFile joins parsed parts. Tensors must have different names in all of them.
func newFile(parts []part, heads []*head) (*File, error) {
	f := &File{Version: heads[0].version, KV: heads[0].kv, parts: parts}
	f.identity = sync.OnceValues(f.hash)
	n := 0
	for _, h := range heads {
		n += len(h.tensors)
	}
	f.Tensors = make([]Tensor, 0, n)
	f.byName = make(map[string]int, n)
	for i, h := range heads {
		for _, t := range h.tensors {
			if _, twice := f.byName[t.Name]; twice {
				return nil, fmt.Errorf("%w: tensor %q occurs twice", ErrInvalid, t.Name)
			}
			f.byName[t.Name] = len(f.Tensors)
			f.Tensors = append(f.Tensors, t)
		}
		parts[i].tensors = h.tensors
		parts[i].header = h.size
	}
	return f, nil
}

// Parse reads a GGUF file that lies in memory; the result aliases data. Of a
// split file it gives the part's own tensors.
func Parse(data []byte) (*File, error) {
	h, err := parse(data)
	if err != nil {
		return nil, err
	}
	return newFile([]part{{data: data}}, []*head{h})
}
