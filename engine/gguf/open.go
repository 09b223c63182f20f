package gguf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"godwit/engine/fault"
)

// Open maps a model. If the model is split, path may name any part. All parts
// must be in one folder, with names as llama.cpp writes them:
// name-00001-of-00003.gguf. If a file cannot be mapped, it is read into memory.
func Open(path string) (*File, error) { return open(path, mapOrRead) }

// Load opens a model like Open, but reads its files into memory instead of
// mapping them.
func Load(path string) (*File, error) { return open(path, read) }

// opener returns a file's bytes and, if they are mapped, a function that unmaps
// them.
type opener func(path string) (data []byte, unmap func() error, err error)

func open(path string, get opener) (*File, error) {
	f, err := openParts(path, get)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func openParts(path string, get opener) (f *File, err error) {
	var parts []part
	defer func() {
		if err != nil {
			closeParts(parts)
		}
	}()
	var heads []*head
	add := func(path string) error {
		data, unmap, err := get(path)
		if err != nil {
			return err
		}
		if unmap != nil {
			forget, free := fault.Name(data, path), unmap
			unmap = func() error { forget(); return free() }
		}
		parts = append(parts, part{path: path, data: data, unmap: unmap})
		var h *head
		err = fault.Guard(func() error {
			var err error
			h, err = parse(data)
			return err
		})
		heads = append(heads, h)
		return err
	}
	if err := add(path); err != nil {
		if names, ok := SplitParts(path); ok && errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(missing(names), err)
		}
		return nil, err
	}
	count, ok := heads[0].kv.Uint(splitCountKey)
	if !ok || count <= 1 {
		return newFile(parts, heads)
	}
	names, err := splitNames(path, count)
	if err != nil {
		return nil, err
	}
	if err := missing(names); err != nil {
		return nil, err
	}
	if first := parts[0]; filepath.Base(names[0]) != filepath.Base(path) {
		// path names a later part, but the first part has the metadata
		parts, heads = nil, nil
		closeParts([]part{first})
		if err := add(names[0]); err != nil {
			return nil, fmt.Errorf("first part %s: %w", filepath.Base(names[0]), err)
		}
	}
	for i, name := range names {
		if i > 0 {
			if err := add(name); err != nil {
				return nil, splitError(name, err)
			}
		}
		if err := heads[i].checkSplit(name, i, len(names)); err != nil {
			return nil, err
		}
		if i > 0 {
			heads[i].kv = nil // metadata is read only from the first part, because it may be large
		}
	}
	if err := checkTotal(heads); err != nil {
		return nil, err
	}
	return newFile(parts, heads)
}

func closeParts(parts []part) {
	for _, p := range parts {
		if p.unmap != nil {
			p.unmap() //nolint:errcheck // the error that led here is the one to report
		}
	}
}

const (
	splitNoKey      = "split.no"
	splitCountKey   = "split.count"
	splitTensorsKey = "split.tensors.count"
)

var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// maxParts bounds the number of parts that a file name can claim. Real models have
// up to about 200.
const maxParts = 512

// SplitParts returns the paths of all parts, at most 512, of the split model to
// which path belongs. It returns false if the name is not the name of a part.
// It only inspects the name.
func SplitParts(path string) ([]string, bool) {
	stem, _, count, ok := Part(path)
	if !ok || count > maxParts {
		return nil, false
	}
	names := make([]string, count)
	for i := range names {
		names[i] = filepath.Join(filepath.Dir(path), fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, count))
	}
	return names, true
}

// Part parses the name of a part into the name before the numbers, the part's
// number (counted from 1), and the number of parts. It returns false for any
// other name.
func Part(path string) (stem string, no, count int, ok bool) {
	m := splitName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return "", 0, 0, false
	}
	no, _ = strconv.Atoi(m[2])
	count, _ = strconv.Atoi(m[3])
	return m[1], no, count, no >= 1 && no <= count
}

func splitNames(path string, count uint64) ([]string, error) {
	if count > maxParts {
		return nil, fmt.Errorf("%w: %s is %d, at most %d parts are supported", ErrSplit, splitCountKey, count, maxParts)
	}
	names, ok := SplitParts(path)
	if !ok || uint64(len(names)) != count {
		return nil, fmt.Errorf("%w: it is one of %d parts and must be named like name-%05d-of-%05d.gguf, in one folder with the others", ErrSplit, count, 1, count)
	}
	return names, nil
}

// missing returns an error that names at most ten missing parts.
func missing(names []string) error {
	var gone []string
	for _, name := range names {
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			gone = append(gone, filepath.Base(name))
		}
	}
	const most = 10
	switch n := len(gone); {
	case n == 0:
		return nil
	case n == 1:
		return fmt.Errorf("%w: %s is missing", ErrSplit, gone[0])
	case n > most:
		return fmt.Errorf("%w: %d of %d parts are missing: %s and %d more", ErrSplit, n, len(names), strings.Join(gone[:most], ", "), n-most)
	default:
		return fmt.Errorf("%w: %d of %d parts are missing: %s", ErrSplit, n, len(names), strings.Join(gone, ", "))
	}
}

func splitError(name string, err error) error {
	if errors.Is(err, os.ErrNotExist) { // the file was deleted after missing had checked it
		return fmt.Errorf("%w: %s is missing", ErrSplit, filepath.Base(name))
	}
	return fmt.Errorf("part %s: %w", filepath.Base(name), err)
}

// checkSplit compares a part's own split metadata with part number i of count.
func (h *head) checkSplit(name string, i, count int) error {
	if no, ok := h.kv.Uint(splitNoKey); !ok || no != uint64(i) {
		return fmt.Errorf("%w: %s says %s %d, want %d", ErrSplit, filepath.Base(name), splitNoKey, no, i)
	}
	if n, ok := h.kv.Uint(splitCountKey); !ok || n != uint64(count) {
		return fmt.Errorf("%w: %s says %s %d, want %d", ErrSplit, filepath.Base(name), splitCountKey, n, count)
	}
	return nil
}

// checkTotal compares the number of tensors with the number that the first part
// states.
func checkTotal(heads []*head) error {
	total := 0
	for _, h := range heads {
		total += len(h.tensors)
	}
	if n, ok := heads[0].kv.Uint(splitTensorsKey); ok && n != uint64(total) {
		return fmt.Errorf("%w: %s is %d, but the parts have %d tensors", ErrSplit, splitTensorsKey, n, total)
	}
	return nil
}

// mapOrRead maps a file, or reads it if the system cannot map it.
func mapOrRead(path string) ([]byte, func() error, error) {
	f, size, err := regular(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if size > 0 {
		if data, unmap, err := mapFile(f, size); err == nil {
			return data, unmap, nil
		}
	}
	return readAll(f, size)
}

func read(path string) ([]byte, func() error, error) {
	f, size, err := regular(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return readAll(f, size)
}

// regular opens a regular file and returns its size.
func regular(path string) (*os.File, int, error) {
	info, err := os.Stat(path) // checked before the file is opened, because opening a pipe would block
	if err != nil {
		return nil, 0, pathless(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%w: not an ordinary file (%s)", ErrNotGGUF, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, pathless(err)
	}
	if info, err = f.Stat(); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if info.Size() != int64(int(info.Size())) {
		return nil, 0, errors.Join(fmt.Errorf("%d bytes do not fit in the address space", info.Size()), f.Close())
	}
	return f, int(info.Size()), nil
}

// pathless removes the path from an error, because open adds it.
func pathless(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func readAll(f *os.File, size int) ([]byte, func() error, error) {
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if n < size {
		return nil, nil, fmt.Errorf("%w: %d of %d bytes read: %w", ErrTruncated, n, size, err)
	}
	return data, nil, nil
}
