package jinja

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// DecodeJSON reads one JSON document. Objects keep their order. If a key occurs
// twice, it keeps its first position and its last value. Numbers without
// fraction and exponent are integers of any size up to 4300 digits. If typed is
// set, all strings and keys are marked as typed. Nesting is limited to 500.
func DecodeJSON(data []byte, typed bool) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, typed, 0)
	if err != nil {
		return nil, fmt.Errorf("json: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("json: data after the document")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, typed bool, depth int) (Value, error) {
	if depth > maxNest {
		return nil, limitErr("nested deeper than %d", maxNest)
	}
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case nil:
		return None, nil
	case bool:
		return Bool(tok), nil
	case string:
		return markedStr(tok, typed), nil
	case json.Number:
		return decodeNumber(string(tok))
	case json.Delim:
		if tok == '[' {
			return decodeList(d, typed, depth)
		}
		return decodeDict(d, typed, depth)
	}
	return nil, fmt.Errorf("unexpected %v", tok)
}

func markedStr(s string, typed bool) *Str {
	if typed {
		return Typed(s)
	}
	return Trusted(s)
}

func decodeList(d *json.Decoder, typed bool, depth int) (Value, error) {
	l := NewList()
	for d.More() {
		v, err := decodeValue(d, typed, depth+1)
		if err != nil {
			return nil, err
		}
		l.Append(v)
	}
	_, err := d.Token()
	return l, err
}

func decodeDict(d *json.Decoder, typed bool, depth int) (Value, error) {
	out := NewDict()
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok {
			return nil, fmt.Errorf("unexpected %v", tok)
		}
		v, err := decodeValue(d, typed, depth+1)
		if err != nil {
			return nil, err
		}
		k := markedStr(key, typed)
		out.put(dictKey{kind: keyStr, s: k.s}, k, v)
	}
	_, err := d.Token()
	return out, err
}

func decodeNumber(s string) (Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return Int(i), nil
		}
		if len(s) > maxDigits {
			return nil, limitErr("integer of %d digits, at most %d are allowed", len(s), maxDigits)
		}
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			return nil, fmt.Errorf("invalid number %q", s)
		}
		return intValue(n), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, fmt.Errorf("invalid number %q", s)
	}
	return Float(f), nil
}

// EncodeJSON writes a value as json.dumps(v, ensure_ascii=False) does. A value that
// JSON cannot express gives ErrType.
func EncodeJSON(v Value) ([]byte, error) {
	lim := Limits{}.withDefaults()
	st := &state{ctx: context.Background(), lim: lim, steps: lim.Steps, memory: lim.Memory}
	b := builder{st: st}
	w := jsonWriter{st: st, b: &b, comma: &Str{s: ", "}, colon: &Str{s: ": "}}
	if err := w.value(v, 0); err != nil {
		return nil, err
	}
	return b.buf, b.err
}

// jsonWriter is json.dumps with its options.
type jsonWriter struct {
	st           *state
	b            *builder
	comma, colon *Str
	indent       *Str // indentation per level; nil writes everything on one line
	ascii, sort  bool
}

func (w *jsonWriter) value(v Value, depth int) error {
	if depth > maxNest {
		return limitErr("JSON nested deeper than %d", maxNest)
	}
	if err := w.st.charge(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case *Str:
		w.str(v)
	case NoneType, Bool, Int, *bigInt, Float:
		w.b.lit(jsonScalar(v))
	case *List:
		return w.list(v.items, depth)
	case *tuple:
		return w.list(v.items, depth)
	case *Dict:
		return w.dict(v, depth)
	default:
		return typeErr("Object of type %s is not JSON serializable", v.pyType())
	}
	return w.b.err
}

func jsonScalar(v Value) string {
	switch v := v.(type) {
	case NoneType:
		return "null"
	case Bool:
		return strconv.FormatBool(bool(v))
	case Float:
		switch f := float64(v); {
		case math.IsNaN(f):
			return "NaN"
		case math.IsInf(f, 1):
			return "Infinity"
		case math.IsInf(f, -1):
			return "-Infinity"
		}
	}
	return scalarRepr(v)
}

func (w *jsonWriter) newline(depth int) error {
	if w.indent == nil {
		return nil
	}
	w.b.lit("\n")
	for range depth {
		w.b.add(w.indent)
	}
	return w.st.charge(depth)
}

func (w *jsonWriter) list(items []Value, depth int) error {
	if len(items) == 0 {
		w.b.lit("[]")
		return w.b.err
	}
	w.b.lit("[")
	for i, item := range items {
		if i > 0 {
			w.b.add(w.comma)
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := w.value(item, depth+1); err != nil {
			return err
		}
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	w.b.lit("]")
	return w.b.err
}

func (w *jsonWriter) dict(d *Dict, depth int) error {
	if d.Len() == 0 {
		w.b.lit("{}")
		return w.b.err
	}
	entries := d.entries
	if w.sort {
		var err error
		if entries, err = w.sorted(entries); err != nil {
			return err
		}
	}
	w.b.lit("{")
	for i, e := range entries {
		if i > 0 {
			w.b.add(w.comma)
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		switch key := e.key.(type) {
		case *Str:
			w.str(key)
		case NoneType, Bool, Int, *bigInt, Float:
			w.b.lit(`"` + jsonScalar(key) + `"`)
		default:
			return typeErr("keys must be str, int, float, bool or None, not %s", key.pyType())
		}
		w.b.add(w.colon)
		if err := w.value(e.val, depth+1); err != nil {
			return err
		}
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	w.b.lit("}")
	return w.b.err
}

func (w *jsonWriter) sorted(entries []entry) ([]entry, error) {
	keys := make([]Value, len(entries))
	for i, e := range entries {
		keys[i] = e.key
	}
	order, err := w.st.sortOrder(keys, false)
	if err != nil {
		return nil, err
	}
	out := make([]entry, len(entries))
	for i, j := range order {
		out[i] = entries[j]
	}
	return out, nil
}

// str writes a quoted string. The quoted text keeps its marks.
func (w *jsonWriter) str(s *Str) {
	w.b.lit(`"`)
	from := 0
	for i, r := range s.s {
		esc := w.escape(r)
		if esc == "" {
			continue
		}
		w.b.addRange(s, from, i)
		w.b.write(esc, s.typedAt(i))
		from = i + utf8.RuneLen(r)
	}
	w.b.addRange(s, from, len(s.s))
	w.b.lit(`"`)
}

func (w *jsonWriter) escape(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	switch {
	case r < 0x20, w.ascii && r >= 0x7f && r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	case w.ascii && r >= 0x10000:
		hi, lo := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
	}
	return ""
}

// toJSON is the filter tojson(ensure_ascii, indent, separators, sort_keys).
func toJSON(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	b := builder{st: st}
	w := jsonWriter{st: st, b: &b, comma: &Str{s: ", "}, colon: &Str{s: ": "}}
	w.ascii = o[0] != nil && truth(o[0])
	w.sort = o[3] != nil && truth(o[3])
	if o[1] != nil && !isNone(o[1]) {
		w.comma = &Str{s: ","}
		switch in := o[1].(type) {
		case *Str:
			w.indent = in.plain()
		default:
			n, ok := asIndex(in)
			if !ok {
				return nil, typeErr("can't multiply sequence by non-int of type '%s'", in.pyType())
			}
			if err := st.alloc(max(n, 0)); err != nil {
				return nil, err
			}
			w.indent = &Str{s: strings.Repeat(" ", max(n, 0))}
		}
	}
	if o[2] != nil && !isNone(o[2]) {
		seps, err := st.elements(o[2])
		if err != nil {
			return nil, err
		}
		if len(seps) != 2 {
			return nil, valueErr("separators must be two, got %d", len(seps))
		}
		if !isString(seps[0]) || !isString(seps[1]) {
			return nil, typeErr("separators must be two strings")
		}
		w.comma, w.colon = seps[0].(*Str).plain(), seps[1].(*Str).plain()
	}
	if err := w.value(v, 0); err != nil {
		return nil, err
	}
	return b.value(false)
}

// fromJSON is the filter from_json, Python's json.loads.
func fromJSON(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("from_json", 0, 0); err != nil {
		return nil, err
	}
	s, ok := v.(*Str)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return nil, typeErr("the JSON object must be str, not %s", u.pyType())
		}
		return nil, typeErr("the JSON object must be str, bytes or bytearray, not %s", v.pyType())
	}
	// the values of a document take at most 32 times its bytes
	if err := st.alloc(32 * len(s.s)); err != nil {
		return nil, err
	}
	if err := st.charge(len(s.s)); err != nil {
		return nil, err
	}
	out, err := DecodeJSON([]byte(s.s), s.IsTyped())
	if err != nil {
		return nil, valueErr("%v", err)
	}
	return out, nil
}
