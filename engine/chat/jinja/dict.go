package jinja

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"slices"
)

// Dict is a mapping that keeps the order in which its keys were added.
type Dict struct {
	entries []entry
	index   map[dictKey]int // nil while the mapping is small
}

type entry struct {
	hash     dictKey
	key, val Value
}

// dictKey identifies a key. Values that are equal in Python (1, 1.0 and true) have
// the same dictKey.
type dictKey struct {
	kind byte
	n    uint64
	s    string
}

const (
	keyStr = iota
	keyInt
	keyBig
	keyFloat
	keyNone
	keyUndefined
	keyTuple
	keyObject
)

// NewDict returns an empty mapping.
func NewDict() *Dict { return &Dict{} }

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.entries) }

// Set sets the value of a key. A new key is trusted and added at the end.
func (d *Dict) Set(key string, v Value) {
	d.put(dictKey{kind: keyStr, s: key}, &Str{s: key}, v)
}

// Get returns the value of a key.
func (d *Dict) Get(key string) (Value, bool) {
	return d.find(dictKey{kind: keyStr, s: key})
}

// All yields the string keys in order, with their values.
func (d *Dict) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, e := range d.entries {
			if s, ok := e.key.(*Str); ok && !yield(s.s, e.val) {
				return
			}
		}
	}
}

// Clone returns a copy that shares the values.
func (d *Dict) Clone() *Dict {
	return &Dict{entries: slices.Clone(d.entries), index: maps.Clone(d.index)}
}

func (d *Dict) put(k dictKey, key, v Value) {
	if i, ok := d.at(k); ok {
		d.entries[i].val = v
		return
	}
	d.entries = append(d.entries, entry{k, key, v})
	switch {
	case d.index != nil:
		d.index[k] = len(d.entries) - 1
	case len(d.entries) > 8:
		d.index = make(map[dictKey]int, 2*len(d.entries))
		for i, e := range d.entries {
			d.index[e.hash] = i
		}
	}
}

// at returns the index of a key.
func (d *Dict) at(k dictKey) (int, bool) {
	if d.index != nil {
		i, ok := d.index[k]
		return i, ok
	}
	for i := range d.entries {
		if d.entries[i].hash == k {
			return i, true
		}
	}
	return 0, false
}

func (d *Dict) find(k dictKey) (Value, bool) {
	if i, ok := d.at(k); ok {
		return d.entries[i].val, true
	}
	return nil, false
}

// hashKey returns the key of a hashable value. Other values give a type error.
func hashKey(st *state, v Value) (dictKey, error) {
	switch v := v.(type) {
	case *Str:
		return dictKey{kind: keyStr, s: v.s}, nil
	case NoneType:
		return dictKey{kind: keyNone}, nil
	case Bool:
		if v {
			return dictKey{kind: keyInt, n: 1}, nil
		}
		return dictKey{kind: keyInt}, nil
	case Int:
		return dictKey{kind: keyInt, n: uint64(v)}, nil
	case *bigInt:
		return dictKey{kind: keyBig, s: v.v.Text(62)}, nil
	case Float:
		return floatKey(float64(v)), nil
	case *undefined:
		return dictKey{kind: keyUndefined}, nil
	case *tuple:
		return tupleKey(st, v)
	case *List, *Dict:
		return dictKey{}, typeErr("unhashable type: '%s'", v.pyType())
	}
	return dictKey{kind: keyObject, s: fmt.Sprintf("%p", v)}, nil
}

func floatKey(f float64) dictKey {
	if f == math.Trunc(f) && !math.IsInf(f, 0) {
		if i := int64(f); math.Abs(f) < 1<<62 {
			return dictKey{kind: keyInt, n: uint64(i)}
		}
		n, _ := big.NewFloat(f).Int(nil)
		if n.IsInt64() {
			return dictKey{kind: keyInt, n: uint64(n.Int64())}
		}
		return dictKey{kind: keyBig, s: n.Text(62)}
	}
	return dictKey{kind: keyFloat, n: math.Float64bits(f)}
}

func tupleKey(st *state, t *tuple) (dictKey, error) {
	var buf []byte
	for _, item := range t.items {
		k, err := hashKey(st, item)
		if err != nil {
			return k, err
		}
		if err := st.alloc(len(k.s) + 16); err != nil {
			return k, err
		}
		buf = append(buf, k.kind)
		buf = binary.LittleEndian.AppendUint64(buf, k.n)
		buf = binary.LittleEndian.AppendUint64(buf, uint64(len(k.s)))
		buf = append(buf, k.s...)
	}
	return dictKey{kind: keyTuple, s: string(buf)}, nil
}

// set sets a computed key. It fails if the key is not hashable.
func (d *Dict) set(st *state, key, v Value) error {
	k, err := hashKey(st, key)
	if err != nil {
		return err
	}
	if err := st.alloc(48); err != nil {
		return err
	}
	d.put(k, key, v)
	return nil
}
