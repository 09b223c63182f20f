package gguf

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Metadata is the ordered list of keys and values of a file. Its getters return
// false if the key is missing or its value has another type. Integers may have
// any integer type in the file.
type Metadata struct {
	keys   []string
	values []Value
	index  map[string]int
}

// Len returns the number of keys.
func (m *Metadata) Len() int { return len(m.keys) }

// All ranges over keys and values in file order.
func (m *Metadata) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i, k := range m.keys {
			if !yield(k, m.values[i]) {
				return
			}
		}
	}
}

// Value returns the value of key.
func (m *Metadata) Value(key string) (Value, bool) {
	i, ok := m.index[key]
	if !ok {
		return Value{}, false
	}
	return m.values[i], true
}

// Has reports whether the file has key.
func (m *Metadata) Has(key string) bool {
	_, ok := m.index[key]
	return ok
}

// lookup applies one of Value's getters to the value of key.
func lookup[T any](m *Metadata, key string, as func(Value) (T, bool)) (T, bool) {
	v, ok := m.Value(key)
	if !ok {
		var zero T
		return zero, false
	}
	return as(v)
}

// String returns a copy of a string. Its bytes need not be valid UTF-8.
func (m *Metadata) String(key string) (string, bool) { return lookup(m, key, Value.Text) }

// Line returns a string made printable by [Line], or "" if it is missing.
func (m *Metadata) Line(key string) string {
	s, _ := m.String(key)
	return Line(s)
}

// Line converts untrusted text to one short line. It removes characters that cannot
// be printed, such as a terminal's control characters.
func Line(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s[:min(len(s), 4*most)])
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// Uint returns an integer that is not negative.
func (m *Metadata) Uint(key string) (uint64, bool) { return lookup(m, key, Value.Uint) }

// Int returns an integer that fits int64.
func (m *Metadata) Int(key string) (int64, bool) { return lookup(m, key, Value.Int) }

// Float returns a float32 or float64.
func (m *Metadata) Float(key string) (float64, bool) { return lookup(m, key, Value.Float) }

// Bool returns a bool.
func (m *Metadata) Bool(key string) (value, ok bool) { return lookup(m, key, Value.Bool) }

// Strings returns an array of strings. Only the slice is allocated. The strings
// alias the file, so they are invalid after Close.
func (m *Metadata) Strings(key string) ([]string, bool) { return lookup(m, key, Value.Strings) }

// Ints returns an array of integers that all fit int64.
func (m *Metadata) Ints(key string) ([]int64, bool) { return lookup(m, key, Value.Ints) }

// Floats returns an array of float32, or of float64 rounded to float32.
func (m *Metadata) Floats(key string) ([]float32, bool) { return lookup(m, key, Value.Floats) }

// Bools returns an array of bools.
func (m *Metadata) Bools(key string) ([]bool, bool) { return lookup(m, key, Value.Bools) }
