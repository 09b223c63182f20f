package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"godwit/engine"
)

// IgnoredHeader lists the request's unknown fields in a response of any dialect.
const IgnoredHeader = "X-Godwit-Ignored"

// Limits of an IgnoredHeader.
const (
	maxIgnored     = 16 // maximum number of names
	maxIgnoredName = 64 // maximum bytes of one name
	maxIgnoredList = 64 // maximum number of list elements that are examined
)

// Ignored returns the value of an IgnoredHeader for a body that is read into
// the wire type of request. The value is the paths of the unknown fields,
// separated by commas, or "". A field that is null counts as missing. The body
// may be any bytes.
func Ignored(body []byte, request any) string {
	if request == nil {
		return ""
	}
	t := reflect.TypeOf(request)
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	var u unknown
	u.object(body, t, "")
	if u.more > 0 {
		u.names = append(u.names, fmt.Sprintf("and %d more", u.more))
	}
	return strings.Join(u.names, ", ")
}

// unknown collects the paths of unknown fields.
type unknown struct {
	names []string
	more  int
}

func (u *unknown) add(path string) {
	switch name := plainName(path); {
	case slices.Contains(u.names, name):
	case len(u.names) == maxIgnored:
		u.more++
	default:
		u.names = append(u.names, name)
	}
}

// plainName writes a path without characters that could end a header or one of
// its names. Other bytes are percent-encoded.
func plainName(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if b.Len() >= maxIgnoredName {
			b.WriteString("...")
			break
		}
		c := path[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.[]$", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// known caches the fields of each wire type by name.
var known sync.Map // reflect.Type → map[string]reflect.Type

// knownOf returns the type of every field. It returns nil for a type that has
// no fields.
func knownOf(t reflect.Type) map[string]reflect.Type {
	if m, ok := known.Load(t); ok {
		return m.(map[string]reflect.Type)
	}
	m := map[string]reflect.Type{}
	for _, f := range fieldsOf(t) {
		if !f.sampling {
			m[f.name] = nested(t.FieldByIndex(f.index).Type)
			continue
		}
		for _, p := range engine.SamplingFields() {
			m[p.Name] = nil
			for _, alias := range p.Aliases {
				m[alias] = nil
			}
		}
		m["logit_bias"], m["dry_sequence_breakers"] = nil, nil
		for _, f := range reuseFields {
			m[f.name] = nil
		}
	}
	known.Store(t, m)
	return m
}

// nested returns the struct in a field or in a list. It returns nil for other types
// and for types that decode themselves.
func nested(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[Decoder]()) {
		return nil
	}
	return t
}

// object examines an object, or the objects in a list.
func (u *unknown) object(raw []byte, t reflect.Type, path string) {
	switch Kind(raw) {
	case "an object":
		fields := knownOf(t)
		eachMember(raw, func(key string, value []byte) {
			at := join(path, key)
			switch inner, ok := fields[key]; {
			case IsNull(value):
			case !ok:
				u.add(at)
			case inner != nil:
				u.object(value, inner, at)
			}
		})
	case "a list":
		i := 0
		eachValue(raw, func(value []byte) {
			if i < maxIgnoredList && Kind(value) == "an object" {
				u.object(value, t, fmt.Sprintf("%s[%d]", path, i))
			}
			i++
		})
	}
}

// eachMember calls f with the keys and values of an object. It stops at the
// first byte that is not JSON.
func eachMember(raw []byte, f func(key string, value []byte)) {
	i := skipBlank(raw, 0) + 1 // start after the opening brace
	for {
		i = skipBlank(raw, i)
		if i >= len(raw) || raw[i] != '"' {
			return
		}
		end := skipValue(raw, i)
		var key string
		if end > len(raw) || json.Unmarshal(raw[i:end], &key) != nil {
			return
		}
		i = skipBlank(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return
		}
		i = skipBlank(raw, i+1)
		end = skipValue(raw, i)
		if end > len(raw) || end == i {
			return
		}
		f(key, raw[i:end])
		i = skipBlank(raw, end)
		if i >= len(raw) || raw[i] != ',' {
			return
		}
		i++
	}
}

// eachValue calls f with the values of a list. Like eachMember, it stops at the
// first byte that is not JSON.
func eachValue(raw []byte, f func(value []byte)) {
	i := skipBlank(raw, 0) + 1
	for {
		i = skipBlank(raw, i)
		end := skipValue(raw, i)
		if end > len(raw) || end == i {
			return
		}
		f(raw[i:end])
		i = skipBlank(raw, end)
		if i >= len(raw) || raw[i] != ',' {
			return
		}
		i++
	}
}

func skipBlank(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i. If there is no value
// at i, it returns more than the length of raw.
func skipValue(raw []byte, i int) int {
	depth, text := 0, false
	for ; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			if text = !text; !text && depth == 0 {
				return i + 1
			}
		case text:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0 && (c == ',' || c == ':' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			return i
		}
	}
	return len(raw) + 1
}
