package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Limits of a schema.
const (
	maxSchema   = 1 << 20 // bytes
	maxDepth    = 64
	maxExponent = 400 // largest exponent of a number
	maxNumber   = 400 // maximum number of digits of a number
)

type kind uint8

const (
	isNull kind = iota
	isBool
	isNumber
	isText
	isArray
	isObject
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

// value is a JSON value with its members in order.
type value struct {
	kind  kind
	yes   bool
	text  string // text of a string, or a number as it was written
	num   *big.Rat
	items []*value
	keys  []string
	at    map[string]*value // members
}

// readValue reads one JSON document. Members keep their order. A repeated
// member is an error.
func readValue(data []byte) (*value, error) {
	if len(data) > maxSchema {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrSchema, len(data), maxSchema)
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("%w: not JSON", ErrSchema)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := read(dec, 0)
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return v, nil
		}
		if err == nil {
			err = errors.New("text after the document")
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, fmt.Errorf("%w: %w", ErrSchema, err)
}

func read(dec *json.Decoder, depth int) (*value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case bool:
		return &value{kind: isBool, yes: t}, nil
	case string:
		return &value{kind: isText, text: t}, nil
	case json.Number:
		return readNumber(string(t))
	case json.Delim:
		if t == '[' {
			return readArray(dec, depth)
		}
		return readObject(dec, depth)
	}
	return &value{}, nil
}

func readArray(dec *json.Decoder, depth int) (*value, error) {
	v := &value{kind: isArray}
	for dec.More() {
		item, err := read(dec, depth+1)
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, item)
	}
	_, err := dec.Token()
	return v, err
}

func readObject(dec *json.Decoder, depth int) (*value, error) {
	v := &value{kind: isObject, at: map[string]*value{}}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok {
			return nil, fmt.Errorf("member without a name")
		}
		if v.at[key] != nil {
			return nil, fmt.Errorf("duplicate member %q", key)
		}
		if v.at[key], err = read(dec, depth+1); err != nil {
			return nil, err
		}
		v.keys = append(v.keys, key)
	}
	_, err := dec.Token()
	return v, err
}

// readNumber reads a number without rounding. It fails if the number has too
// many digits.
func readNumber(s string) (*value, error) {
	mantissa, exp := s, "0"
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exp = s[:i], s[i+1:]
	}
	e, err := strconv.Atoi(exp)
	if err != nil || e > maxExponent || e < -maxExponent || len(mantissa) > maxNumber {
		return nil, fmt.Errorf("number %.40s has too many digits", s)
	}
	num, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, fmt.Errorf("number %.40s", s)
	}
	return &value{kind: isNumber, text: s, num: num}, nil
}

// key returns a string that is equal for values that JSON Schema considers equal.
// Numbers compare by value, and objects independently of member order.
func (v *value) key() string { return string(v.appendKey(nil)) }

func (v *value) appendKey(dst []byte) []byte {
	switch v.kind {
	case isBool:
		return strconv.AppendBool(dst, v.yes)
	case isNumber:
		return append(dst, v.num.RatString()...)
	case isText:
		return strconv.AppendQuote(dst, v.text)
	case isArray:
		dst = append(dst, '[')
		for _, item := range v.items {
			dst = append(item.appendKey(dst), ',')
		}
		return append(dst, ']')
	case isObject:
		dst = append(dst, '{')
		for _, k := range slices.Sorted(slices.Values(v.keys)) {
			dst = append(strconv.AppendQuote(dst, k), ':')
			dst = append(v.at[k].appendKey(dst), ',')
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// expr returns the expression that matches the value, with the optional blanks
// after ":" and "," that every document may have.
func (v *value) expr() *expr {
	switch v.kind {
	case isBool:
		return lit(strconv.FormatBool(v.yes))
	case isNumber:
		return lit(v.text)
	case isText:
		return lit(quoted(v.text))
	case isArray:
		subs := []*expr{lit("[")}
		for i, item := range v.items {
			if i > 0 {
				subs = append(subs, comma)
			}
			subs = append(subs, item.expr())
		}
		return seq(append(subs, lit("]"))...)
	case isObject:
		subs := []*expr{lit("{")}
		for i, k := range v.keys {
			if i > 0 {
				subs = append(subs, comma)
			}
			subs = append(subs, lit(quoted(k)), colon, v.at[k].expr())
		}
		return seq(append(subs, lit("}"))...)
	}
	return lit("null")
}
