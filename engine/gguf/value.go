package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// Kind is the type of a metadata value, numbered as in the file.
type Kind uint32

// The kinds of metadata values.
const (
	Uint8 Kind = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array // never the Kind of a Value, because an array has the kind of its elements and IsArray set
	Uint64
	Int64
	Float64
)

var kinds = [...]struct {
	name  string
	bytes int // size of a value in bytes; 0 for strings and arrays
}{
	Uint8: {"uint8", 1}, Int8: {"int8", 1}, Uint16: {"uint16", 2}, Int16: {"int16", 2},
	Uint32: {"uint32", 4}, Int32: {"int32", 4}, Float32: {"float32", 4}, Bool: {"bool", 1},
	String: {"string", 0}, Array: {"array", 0}, Uint64: {"uint64", 8}, Int64: {"int64", 8}, Float64: {"float64", 8},
}

// String returns the name of the kind, as in "uint32".
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return fmt.Sprintf("value type %d", uint32(k))
}

func (k Kind) size() int     { return kinds[k].bytes }
func (k Kind) integer() bool { return k <= Int32 || k == Uint64 || k == Int64 }

// Value is one metadata value: a scalar, a string or an array. It aliases the
// file and is invalid after Close.
type Value struct {
	Kind    Kind // kind of the value, or of the array's elements
	IsArray bool
	n       int
	raw     []byte // bytes of the elements as in the file; for a scalar string, without its length
}

// Len returns the number of elements of an array, or 1 for other values.
func (v Value) Len() int {
	if v.IsArray {
		return v.n
	}
	return 1
}

// First returns an array with at most its first n elements, which saves memory.
// Other values, and arrays of strings, are returned unchanged.
func (v Value) First(n int) Value {
	if v.IsArray && v.Kind != String && v.n > n {
		v.n, v.raw = n, v.raw[:n*v.Kind.size()]
	}
	return v
}

// Uint returns an integer scalar that is not negative.
func (v Value) Uint() (uint64, bool) {
	if v.IsArray || !v.Kind.integer() {
		return 0, false
	}
	u, neg := v.integer(0)
	return u, !neg
}

// Int returns an integer scalar that fits int64.
func (v Value) Int() (int64, bool) {
	if v.IsArray || !v.Kind.integer() {
		return 0, false
	}
	u, neg := v.integer(0)
	return int64(u), neg || u <= math.MaxInt64
}

// Float returns a float32 or float64 scalar.
func (v Value) Float() (float64, bool) {
	if v.IsArray || v.Kind != Float32 && v.Kind != Float64 {
		return 0, false
	}
	return v.float(0), true
}

// Bool returns a bool scalar.
func (v Value) Bool() (value, ok bool) {
	if v.IsArray || v.Kind != Bool {
		return false, false
	}
	return v.raw[0] != 0, true
}

// Text returns a copy of a string. Its bytes need not be valid UTF-8.
func (v Value) Text() (string, bool) {
	if v.IsArray || v.Kind != String {
		return "", false
	}
	return string(v.raw), true
}

// Strings returns an array of strings. Only the slice is allocated. The strings
// alias the file and are invalid after Close.
func (v Value) Strings() ([]string, bool) {
	if !v.IsArray || v.Kind != String {
		return nil, false
	}
	list := make([]string, 0, v.n)
	for s := range v.strings() {
		list = append(list, s)
	}
	return list, true
}

// HasString reports whether an array of strings contains s.
func (v Value) HasString(s string) bool {
	if !v.IsArray || v.Kind != String || !bytes.Contains(v.raw, []byte(s)) {
		return false
	}
	for x := range v.strings() {
		if x == s {
			return true
		}
	}
	return false
}

// strings iterates over an array of strings, whose lengths parse has checked.
func (v Value) strings() iter.Seq[string] {
	return func(yield func(string) bool) {
		raw := v.raw
		for range v.n {
			n := binary.LittleEndian.Uint64(raw)
			if !yield(alias(raw[8 : 8+n])) {
				return
			}
			raw = raw[8+n:]
		}
	}
}

// Ints returns an array of integers of any kind that all fit int64.
func (v Value) Ints() ([]int64, bool) {
	if !v.IsArray || !v.Kind.integer() {
		return nil, false
	}
	list := make([]int64, v.n)
	for i := range list {
		u, neg := v.integer(i)
		if !neg && u > math.MaxInt64 {
			return nil, false
		}
		list[i] = int64(u)
	}
	return list, true
}

// Floats returns an array of float32, or of float64 rounded to float32.
func (v Value) Floats() ([]float32, bool) {
	if !v.IsArray || v.Kind != Float32 && v.Kind != Float64 {
		return nil, false
	}
	list := make([]float32, v.n)
	for i := range list {
		list[i] = float32(v.float(i))
	}
	return list, true
}

// Bools returns an array of bools.
func (v Value) Bools() ([]bool, bool) {
	if !v.IsArray || v.Kind != Bool {
		return nil, false
	}
	list := make([]bool, v.n)
	for i := range list {
		list[i] = v.raw[i] != 0
	}
	return list, true
}

// Any returns the value as the closest Go type: string, bool, uint64, int64 or
// float64, or a slice of one of these. Strings are copies.
func (v Value) Any() any {
	switch {
	case v.IsArray && v.Kind == String:
		return collect(v, func(_ int, s string) string { return strings.Clone(s) })
	case v.Kind == String:
		return string(v.raw)
	case !v.IsArray:
		return v.scalar(0)
	case v.Kind == Bool:
		list, _ := v.Bools()
		return list
	case v.Kind == Float32 || v.Kind == Float64:
		return collect(v, func(i int, _ string) float64 { return v.float(i) })
	case v.signed():
		return collect(v, func(i int, _ string) int64 { u, _ := v.integer(i); return int64(u) })
	}
	return collect(v, func(i int, _ string) uint64 { u, _ := v.integer(i); return u })
}

func collect[T any](v Value, at func(int, string) T) []T {
	list := make([]T, 0, v.n)
	if v.Kind == String {
		for s := range v.strings() {
			list = append(list, at(len(list), s))
		}
		return list
	}
	for i := range v.n {
		list = append(list, at(i, ""))
	}
	return list
}

// String formats the value on one line. A long array shows its first elements
// and its length. A long string shows its first 200 bytes.
func (v Value) String() string {
	if !v.IsArray {
		return v.print(0, alias(v.raw))
	}
	const shown = 8
	var b strings.Builder
	b.WriteByte('[')
	i := 0
	add := func(s string) bool {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == shown {
			fmt.Fprintf(&b, "… %d of %v", v.n, v.Kind)
			return false
		}
		b.WriteString(v.print(i, s))
		i++
		return true
	}
	if v.Kind == String {
		v.strings()(add)
	} else {
		for range v.n {
			if !add("") {
				break
			}
		}
	}
	b.WriteByte(']')
	return b.String()
}

func (v Value) print(i int, s string) string {
	if v.Kind != String {
		return fmt.Sprint(v.scalar(i))
	}
	const shown = 200
	if len(s) > shown {
		return strconv.Quote(s[:shown]) + fmt.Sprintf("… %d bytes", len(s))
	}
	return strconv.Quote(s)
}

func (v Value) signed() bool {
	return v.Kind == Int8 || v.Kind == Int16 || v.Kind == Int32 || v.Kind == Int64
}

// scalar returns element i, which must not be a string.
func (v Value) scalar(i int) any {
	switch v.Kind {
	case Bool:
		return v.raw[i] != 0
	case Float32, Float64:
		return v.float(i)
	}
	u, _ := v.integer(i)
	if v.signed() {
		return int64(u)
	}
	return u
}

// integer returns element i in two's complement, and whether it is negative.
func (v Value) integer(i int) (u uint64, negative bool) {
	size := v.Kind.size()
	b := v.raw[i*size : (i+1)*size]
	switch size {
	case 1:
		u = uint64(b[0])
	case 2:
		u = uint64(binary.LittleEndian.Uint16(b))
	case 4:
		u = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		u = binary.LittleEndian.Uint64(b)
	}
	if !v.signed() {
		return u, false
	}
	shift := 64 - 8*size
	s := int64(u<<shift) >> shift
	return uint64(s), s < 0
}

func (v Value) float(i int) float64 {
	if v.Kind == Float32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:])))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(v.raw[8*i:]))
}

// alias returns a string that shares b's memory.
func alias(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}
