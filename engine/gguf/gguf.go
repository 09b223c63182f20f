// Package gguf reads and writes GGUF model files, versions 2 and 3.
//
//	f, err := gguf.Open("model.gguf") // maps the file and its other parts
//	defer f.Close()
//	n, ok := f.KV.Uint(f.Arch() + ".block_count")
//	t, ok := f.Tensor("token_embd.weight")
//
// Open reads only the header, the metadata and the tensor table. Tensor pages are
// read from disk on first use. A hostile or damaged file gives an error that names
// the fault. Every count and length is checked against the file size before memory
// is allocated for it.
//
// If another process truncates a mapped file, its pages disappear. Metadata is
// copied at Open. Code that reads Data runs inside fault.Guard, which converts the
// signal into an error that names the file.
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

// Classes of errors. The numbers follow in the error's text.
var (
	ErrNotGGUF    = errors.New("not a GGUF file")
	ErrVersion    = errors.New("unsupported GGUF version")
	ErrTruncated  = errors.New("GGUF file is cut short")
	ErrInvalid    = errors.New("invalid GGUF file")
	ErrTensorType = errors.New("unknown tensor type")
	ErrSplit      = errors.New("split GGUF file is incomplete")
)

// File is an open model, which is one GGUF file or all parts of a split file.
// Its methods are safe for concurrent use, except Close.
type File struct {
	Version uint32    // 2 or 3
	KV      *Metadata // metadata of the first part
	Tensors []Tensor  // tensors in file order, part after part

	parts    []part
	byName   map[string]int
	identity func() ([32]byte, error)
}

// Tensor is one entry of the tensor table.
type Tensor struct {
	Name  string
	Type  dtype.Type
	Shape []int  // one to four lengths in ggml order, where Shape[0] is the row length
	Data  []byte // aliases the mapping; it is read-only, and invalid after Close
}

// Rows returns the number of rows, which is the product of all lengths after
// the first.
func (t *Tensor) Rows() int {
	n := 1
	for _, d := range t.Shape[1:] {
		n *= d
	}
	return n
}

// String returns the name, type and shape, as in "output.weight Q8_0 [64 512]".
func (t *Tensor) String() string { return fmt.Sprintf("%s %v %v", t.Name, t.Type, t.Shape) }

// part is one file of a split model.
type part struct {
	path    string
	data    []byte
	header  int // length in bytes of header, metadata and tensor table
	tensors []Tensor
	unmap   func() error // nil if data is in ordinary memory
}

// Tensor finds a tensor by name. The result points into f.Tensors.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// Arch returns general.architecture, or "" if the file does not contain it.
func (f *File) Arch() string {
	s, _ := f.KV.String("general.architecture")
	return s
}

// Size returns the total length of all parts in bytes.
func (f *File) Size() int64 {
	var n int64
	for _, p := range f.parts {
		n += int64(len(p.data))
	}
	return n
}

// Paths lists the paths of the parts of f in order. It is empty after Parse.
func (f *File) Paths() []string {
	var paths []string
	for _, p := range f.parts {
		if p.path != "" {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// Identity returns the SHA-256 of header, metadata and tensor table followed by
// the first 4 KiB of each tensor, part after part. It distinguishes models
// without reading all weights, so it does not prove that they are undamaged. If
// the file can no longer be read, the result is not equal to any other identity
// (see [File.Gone]).
func (f *File) Identity() [32]byte {
	id, _ := f.identity()
	return id
}

// Gone returns an error if the file was truncated before Identity had read it.
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
		_, _ = rand.Read(id[:]) // rand.Read cannot fail
	}
	return id, err
}

// DropPages tells the system that the mapped pages are not needed now. They
// leave memory and are read from disk again on the next use. It does nothing if
// the file is not mapped or the system has no such call.
func (f *File) DropPages() {
	for _, p := range f.parts {
		if p.unmap != nil {
			dropPages(p.data)
		}
	}
}

// Drop is DropPages for the pages that lie completely inside data, a part of the
// file's bytes. It ignores other memory. It is safe for concurrent use.
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

// Lock keeps the file in physical memory (mlock). Systems limit locked memory per
// process, so the error contains the requested size.
func (f *File) Lock() error {
	for _, p := range f.parts {
		if err := lockPages(p.data); err != nil {
			return fmt.Errorf("lock %d bytes of %s in memory (raise the limit of locked memory, ulimit -l): %w", len(p.data), p.path, err)
		}
	}
	return nil
}

// Close unmaps the file. All Data, and all strings returned by Metadata.Strings and
// Value.Strings, are invalid afterwards. A second Close does nothing.
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

// newFile joins parsed parts. Tensor names must be unique across all parts.
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

// Parse reads a GGUF file in memory. The result aliases data. For a part of a split
// file, it returns only the part's own tensors.
func Parse(data []byte) (*File, error) {
	h, err := parse(data)
	if err != nil {
		return nil, err
	}
	return newFile([]part{{data: data}}, []*head{h})
}
