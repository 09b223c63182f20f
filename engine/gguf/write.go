package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"godwit/engine/dtype"
)

// KV is one metadata entry to write. Value is a bool, an integer of 8 to 64
// bits, a float32 or float64, a string, a slice of one of these, or a Value
// from another file.
type KV struct {
	Key   string
	Value any
}

// Write writes a complete version 3 file: header, metadata, tensor table and
// the tensors' Data. The size of each tensor's Data must follow from its type
// and shape.
func Write(w io.Writer, kv []KV, tensors []Tensor) error {
	out, err := NewWriter(w, kv, tensors)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := out.Write(t.Data); err != nil {
			return err
		}
	}
	return out.Close()
}

// Writer streams tensor data into a file after the tensor table, for models that do
// not fit in memory.
type Writer struct {
	w     io.Writer
	names []string
	sizes []uint64
	align uint64
	i     int    // index of the current tensor
	left  uint64 // remaining bytes of the current tensor
}

// NewWriter writes header, metadata and tensor table. The caller then passes the
// tensors' data to Write, in order and without padding. NewWriter ignores the
// tensors' Data fields.
func NewWriter(w io.Writer, kv []KV, tensors []Tensor) (*Writer, error) {
	out := &Writer{w: w, align: defaultAlign}
	head := append([]byte(magic), 3, 0, 0, 0)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(kv)))
	meta := &cursor{data: head, off: len(head)}
	for _, e := range kv {
		v, err := valueOf(e.Value)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", e.Key, err)
		}
		meta.data = appendKV(meta.data, e.Key, v)
	}
	m, err := meta.metadata(len(kv)) // check the metadata as a reader will read it
	if err == nil && meta.rest() != 0 {
		err = fmt.Errorf("%w: a metadata value does not have the size of its type", ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	if out.align, err = alignment(m); err != nil {
		return nil, err
	}
	head, err = out.table(meta.data, tensors)
	if err != nil {
		return nil, err
	}
	if len(tensors) > 0 {
		head = append(head, make([]byte, out.padding(uint64(len(head))))...)
		out.left = out.sizes[0]
	}
	_, err = w.Write(head)
	return out, err
}

// table appends the tensor table and records sizes and names.
func (w *Writer) table(head []byte, tensors []Tensor) ([]byte, error) {
	seen := make(map[string]bool, len(tensors))
	var offset uint64
	for _, t := range tensors {
		switch {
		case t.Name == "" || len(t.Name) > maxName || seen[t.Name]:
			return nil, fmt.Errorf("%w: tensor name %q is empty, too long or used twice", ErrInvalid, t.Name)
		case len(t.Shape) < 1 || len(t.Shape) > 4:
			return nil, fmt.Errorf("%w: tensor %q has %d dimensions, 1 to 4 are allowed", ErrInvalid, t.Name, len(t.Shape))
		}
		seen[t.Name] = true
		head = appendText(head, t.Name)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(t.Shape)))
		for i, n := range t.Shape {
			if n < 1 {
				return nil, fmt.Errorf("%w: tensor %q: length %d in dimension %d", ErrInvalid, t.Name, n, i)
			}
			head = binary.LittleEndian.AppendUint64(head, uint64(n))
		}
		if _, ok := dtype.FromGGML(uint32(t.Type)); !ok {
			return nil, fmt.Errorf("tensor %q: %w: %s", t.Name, ErrTensorType, typeName(uint32(t.Type)))
		}
		size, err := byteSize(t.Type, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(t.Type))
		head = binary.LittleEndian.AppendUint64(head, offset)
		offset += size + uint64(w.padding(size))
		w.names = append(w.names, t.Name)
		w.sizes = append(w.sizes, size)
	}
	return head, nil
}

// padding returns the number of zero bytes that must follow n bytes.
func (w *Writer) padding(n uint64) int { return int(-n & (w.align - 1)) }

// Write appends tensor data. It adds padding at the end of each tensor. It
// returns an error if there are more bytes than the tensors need.
func (w *Writer) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 {
		if w.i == len(w.sizes) {
			return done, fmt.Errorf("%w: %d bytes more than the tensors have", ErrInvalid, len(p))
		}
		n, err := w.w.Write(p[:min(uint64(len(p)), w.left)])
		done += n
		w.left -= uint64(n)
		if err != nil {
			return done, err
		}
		p = p[n:]
		if w.left > 0 {
			continue
		}
		if _, err := w.w.Write(make([]byte, w.padding(w.sizes[w.i]))); err != nil {
			return done, err
		}
		if w.i++; w.i < len(w.sizes) {
			w.left = w.sizes[w.i]
		}
	}
	return done, nil
}

// Close checks that every tensor was written. It does not close the file.
func (w *Writer) Close() error {
	if w.i < len(w.sizes) {
		return fmt.Errorf("%w: %d bytes of tensor %q are missing", ErrTruncated, w.left, w.names[w.i])
	}
	return nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func appendKV(b []byte, key string, v Value) []byte {
	b = appendText(b, key)
	switch {
	case v.IsArray:
		b = binary.LittleEndian.AppendUint32(b, uint32(Array))
		b = binary.LittleEndian.AppendUint32(b, uint32(v.Kind))
		b = binary.LittleEndian.AppendUint64(b, uint64(v.n))
	case v.Kind == String:
		b = binary.LittleEndian.AppendUint32(b, uint32(String))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v.raw)))
	default:
		b = binary.LittleEndian.AppendUint32(b, uint32(v.Kind))
	}
	return append(b, v.raw...)
}

// valueOf converts a Go value to a Value.
func valueOf(x any) (Value, error) {
	switch x := x.(type) {
	case Value:
		return x, nil
	case string:
		return Value{Kind: String, raw: []byte(x)}, nil
	case []string:
		v := Value{Kind: String, IsArray: true, n: len(x)}
		for _, s := range x {
			v.raw = appendText(v.raw, s)
		}
		return v, nil
	case bool:
		return Value{Kind: Bool, raw: appendBool(nil, x)}, nil
	case []bool:
		v := Value{Kind: Bool, IsArray: true, n: len(x)}
		for _, e := range x {
			v.raw = appendBool(v.raw, e)
		}
		return v, nil
	}
	return numbers(x)
}

func appendBool(b []byte, x bool) []byte {
	if x {
		return append(b, 1)
	}
	return append(b, 0)
}

func numbers(x any) (Value, error) {
	switch x := x.(type) {
	case uint8:
		return number(Uint8, []uint8{x}).scalarOf(), nil
	case int8:
		return number(Int8, []int8{x}).scalarOf(), nil
	case uint16:
		return number(Uint16, []uint16{x}).scalarOf(), nil
	case int16:
		return number(Int16, []int16{x}).scalarOf(), nil
	case uint32:
		return number(Uint32, []uint32{x}).scalarOf(), nil
	case int32:
		return number(Int32, []int32{x}).scalarOf(), nil
	case uint64:
		return number(Uint64, []uint64{x}).scalarOf(), nil
	case int64:
		return number(Int64, []int64{x}).scalarOf(), nil
	case float32:
		return float32s([]float32{x}).scalarOf(), nil
	case float64:
		return float64s([]float64{x}).scalarOf(), nil
	case []uint8:
		return number(Uint8, x), nil
	case []int8:
		return number(Int8, x), nil
	case []uint16:
		return number(Uint16, x), nil
	case []int16:
		return number(Int16, x), nil
	case []uint32:
		return number(Uint32, x), nil
	case []int32:
		return number(Int32, x), nil
	case []uint64:
		return number(Uint64, x), nil
	case []int64:
		return number(Int64, x), nil
	case []float32:
		return float32s(x), nil
	case []float64:
		return float64s(x), nil
	}
	return Value{}, fmt.Errorf("%w: a %T cannot be written", ErrInvalid, x)
}

// scalarOf returns the only element of an array of length one as a scalar.
func (v Value) scalarOf() Value { return Value{Kind: v.Kind, raw: v.raw} }

func number[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](k Kind, list []T) Value {
	v := Value{Kind: k, IsArray: true, n: len(list)}
	for _, x := range list {
		v.raw = binary.LittleEndian.AppendUint64(v.raw, uint64(x))
		v.raw = v.raw[:len(v.raw)-8+k.size()]
	}
	return v
}

func float32s(list []float32) Value {
	v := Value{Kind: Float32, IsArray: true, n: len(list)}
	for _, x := range list {
		v.raw = binary.LittleEndian.AppendUint32(v.raw, math.Float32bits(x))
	}
	return v
}

func float64s(list []float64) Value {
	v := Value{Kind: Float64, IsArray: true, n: len(list)}
	for _, x := range list {
		v.raw = binary.LittleEndian.AppendUint64(v.raw, math.Float64bits(x))
	}
	return v
}
