package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxDepth limits the nesting of a body.
const maxDepth = 128

// Decoder is a wire type that decodes itself, such as a field that may be a string
// or a list. path names the value in errors.
type Decoder interface {
	DecodeWire(raw json.RawMessage, path string) error
}

// Decode reads a JSON object into the struct that dst points to. Unknown fields are
// ignored, and null counts as missing. A known field with a wrong type or outside
// of its tags' bounds gives an *Error that names the field.
//
// Tags: json is the name; min and max bound a number; enum lists the allowed
// strings, separated by commas; most limits the length of strings, lists and
// objects; need marks a required field.
func Decode(body []byte, dst any) error {
	if err := checkDepth(body); err != nil {
		return err
	}
	if !utf8.Valid(body) {
		n := 0
		for r, size := utf8.DecodeRune(body); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(body[n:]) {
			n += size
		}
		return Bad("", "the body is not UTF-8: byte %d is 0x%02x", n, body[n])
	}
	if !json.Valid(body) {
		var v any
		return Bad("", "the body is not JSON: %v", json.Unmarshal(body, &v))
	}
	if Kind(body) != "an object" {
		return Bad("", "the body is %s, want a JSON object", Kind(body))
	}
	return decodeStruct(body, reflect.ValueOf(dst).Elem(), "")
}

// checkDepth rejects bodies with excessive nesting before any recursive code sees
// them.
func checkDepth(body []byte) error {
	depth, text := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return Bad("", "the body nests deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// field is one field of a wire type.
type field struct {
	name     string
	index    []int
	min, max *float64
	enum     []string
	most     int
	need     bool
	doc      string
	sampling bool // an embedded Sampling, which reads its own fields
}

// fieldCache caches the fields of each wire type.
var fieldCache sync.Map // reflect.Type → []field

func fieldsOf(t reflect.Type) []field {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]field)
	}
	var list []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		switch {
		case sf.Type == reflect.TypeFor[Sampling]():
			list = append(list, field{index: []int{i}, sampling: true})
			continue
		case sf.Anonymous && name == "":
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				list = append(list, f)
			}
			continue
		case name == "" || name == "-":
			continue
		}
		f := field{name: name, index: []int{i}, min: number(tag.Get("min")), max: number(tag.Get("max")), doc: tag.Get("doc")}
		_, f.need = tag.Lookup("need")
		if e := tag.Get("enum"); e != "" {
			f.enum = strings.Split(e, ",")
		}
		if m := tag.Get("most"); m != "" {
			f.most = int(*number(m))
		}
		list = append(list, f)
	}
	fieldCache.Store(t, list)
	return list
}

func number(text string) *float64 {
	if text == "" {
		return nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("wire: bound " + text)
	}
	return &x
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func decodeStruct(raw json.RawMessage, dst reflect.Value, path string) error {
	var object map[string]json.RawMessage
	if Kind(raw) != "an object" {
		return Bad(path, "want an object, got %s", Kind(raw))
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return Bad(path, "%v", err)
	}
	for _, f := range fieldsOf(dst.Type()) {
		if f.sampling {
			if err := dst.FieldByIndex(f.index).Addr().Interface().(*Sampling).decode(object, path); err != nil {
				return err
			}
			continue
		}
		value, name := object[f.name], join(path, f.name)
		if IsNull(value) {
			if f.need {
				return Bad(name, "this field is required")
			}
			continue
		}
		if err := decode(value, dst.FieldByIndex(f.index), name, &f); err != nil {
			return err
		}
	}
	return nil
}

// decode reads one value that is not null.
func decode(raw json.RawMessage, dst reflect.Value, path string, f *field) error {
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		return decode(raw, dst.Elem(), path, f)
	}
	if d, ok := dst.Addr().Interface().(Decoder); ok {
		return d.DecodeWire(raw, path)
	}
	if dst.Type() == reflect.TypeFor[json.RawMessage]() {
		dst.SetBytes(bytes.Clone(raw))
		return nil
	}
	switch dst.Kind() {
	case reflect.String:
		return decodeString(raw, dst, path, f)
	case reflect.Bool:
		if Kind(raw) != "a boolean" {
			return Bad(path, "want a boolean, got %s", Kind(raw))
		}
		dst.SetBool(string(bytes.TrimSpace(raw)) == "true")
		return nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := Integer(raw, path, f.min, f.max)
		if err == nil && dst.OverflowInt(n) {
			err = Bad(path, "%d is out of range", n)
		}
		dst.SetInt(n)
		return err
	case reflect.Float64:
		x, err := Number(raw, path, f.min, f.max)
		dst.SetFloat(x)
		return err
	case reflect.Slice:
		return decodeList(raw, dst, path, f)
	case reflect.Struct:
		return decodeStruct(raw, dst, path)
	}
	panic("wire: no decoding of " + dst.Type().String())
}

func decodeString(raw json.RawMessage, dst reflect.Value, path string, f *field) error {
	s, err := Text(raw, path)
	if err != nil {
		return err
	}
	if f.most > 0 && len(s) > f.most {
		return Bad(path, "%d bytes is too long; the limit is %d", len(s), f.most)
	}
	if f.enum != nil {
		found := false
		for _, e := range f.enum {
			found = found || e == s
		}
		if !found {
			return Bad(path, "%q is not one of %s", clip(s), strings.Join(f.enum, ", "))
		}
	}
	dst.SetString(s)
	return nil
}

// clip truncates a client's text for an error.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func decodeList(raw json.RawMessage, dst reflect.Value, path string, f *field) error {
	list, err := List(raw, path)
	if err != nil {
		return err
	}
	if f.most > 0 && len(list) > f.most {
		return Bad(path, "%d entries are too many; the limit is %d", len(list), f.most)
	}
	out := reflect.MakeSlice(dst.Type(), len(list), len(list))
	inner := field{min: f.min, max: f.max, enum: f.enum}
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if IsNull(item) {
			return Bad(at, "want a value, got null")
		}
		if err := decode(item, out.Index(i), at, &inner); err != nil {
			return err
		}
	}
	dst.Set(out)
	return nil
}

// Text reads a string.
func Text(raw json.RawMessage, path string) (string, error) {
	if Kind(raw) != "a string" {
		return "", Bad(path, "want a string, got %s", Kind(raw))
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", Bad(path, "%v", err)
	}
	return s, nil
}

// List reads a list.
func List(raw json.RawMessage, path string) ([]json.RawMessage, error) {
	if Kind(raw) != "a list" {
		return nil, Bad(path, "want a list, got %s", Kind(raw))
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, Bad(path, "%v", err)
	}
	return list, nil
}

// TextOrList reads a string or a non-empty list.
func TextOrList(raw json.RawMessage, path string) (text string, list []json.RawMessage, err error) {
	switch Kind(raw) {
	case "a string":
		text, err = Text(raw, path)
		return text, nil, err
	case "a list":
	case "null", "nothing":
		return "", nil, Bad(path, "this field is required")
	default:
		return "", nil, Bad(path, "want a string or a list, got %s", Kind(raw))
	}
	if list, err = List(raw, path); err == nil && len(list) == 0 {
		err = Bad(path, "the list is empty")
	}
	return "", list, err
}

// Number reads a number within bounds. A nil bound does not apply.
func Number(raw json.RawMessage, path string, least, most *float64) (float64, error) {
	if Kind(raw) != "a number" {
		return 0, Bad(path, "want a number, got %s", Kind(raw))
	}
	x, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	if err != nil {
		return 0, Bad(path, "%s is out of range", clip(string(raw)))
	}
	return x, bounds(x, path, least, most)
}

func bounds(x float64, path string, least, most *float64) error {
	switch {
	case least != nil && x < *least:
		return Bad(path, "%v is too small; the minimum is %v", x, *least)
	case most != nil && x > *most:
		return Bad(path, "%v is too large; the maximum is %v", x, *most)
	}
	return nil
}

// Integer reads a whole number. The result is exact if the text has neither
// fraction nor exponent.
func Integer(raw json.RawMessage, path string, least, most *float64) (int64, error) {
	if Kind(raw) != "a number" {
		return 0, Bad(path, "want a whole number, got %s", Kind(raw))
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
	if err == nil {
		return n, bounds(float64(n), path, least, most)
	}
	x, err := Number(raw, path, least, most)
	if err != nil {
		return 0, err
	}
	if x != math.Trunc(x) || math.Abs(x) >= 1<<63 {
		return 0, Bad(path, "%s is not a whole number", clip(string(bytes.TrimSpace(raw))))
	}
	return int64(x), nil
}
