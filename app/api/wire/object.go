package wire

import (
	"bytes"
	"encoding/json"
)

// Member is a key of an object with its value.
type Member struct {
	Key   string
	Value json.RawMessage
}

// Object is a JSON object that keeps the order of its keys, which a chat
// template may show to the model.
type Object []Member

// maxMembers limits the number of keys in an object, because keys are searched
// linearly.
const maxMembers = 256

// ReadObject reads an object with at most 256 keys. If a key occurs twice, it
// keeps its first position and its last value.
func ReadObject(raw json.RawMessage, path string) (Object, error) {
	if Kind(raw) != "an object" {
		return nil, Bad(path, "want an object, got %s", Kind(raw))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, Bad(path, "%v", err)
	}
	o := Object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, Bad(path, "%v", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, Bad(path, "%v", err)
		}
		o.Set(key.(string), value)
		if len(o) > maxMembers {
			return nil, Bad(path, "the object has more than %d keys", maxMembers)
		}
	}
	return o, nil
}

// Value returns the value of a key, or nil if it is missing or null.
func (o Object) Value(key string) json.RawMessage {
	for i := range o {
		if o[i].Key == key && !IsNull(o[i].Value) {
			return o[i].Value
		}
	}
	return nil
}

// Has reports whether the key exists, even with the value null.
func (o Object) Has(key string) bool {
	for i := range o {
		if o[i].Key == key {
			return true
		}
	}
	return false
}

// Set replaces a value, or adds it at the end.
func (o *Object) Set(key string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Member{key, value})
}

// SetText is Set of a string.
func (o *Object) SetText(key, value string) { o.Set(key, JSON(value)) }

// Remove removes a key.
func (o *Object) Remove(key string) {
	for i := range *o {
		if (*o)[i].Key == key {
			*o = append((*o)[:i], (*o)[i+1:]...)
			return
		}
	}
}

// Raw writes the object.
func (o Object) Raw() json.RawMessage {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, JSON(m.Key)...)
		b = append(b, ':')
		b = append(b, m.Value...)
	}
	return append(b, '}')
}

// RawList writes a list.
func RawList(items []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

// JSON encodes one of the server's own values, without escaping <, > and &.
// Encoding such a value cannot fail.
func JSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("wire: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Compact removes the white space between the parts of client JSON, which must be
// valid.
func Compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}
