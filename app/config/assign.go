package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// set stores a value. The value is text from a command line or the environment,
// or a bool, number, string or list from TOML or JSON. nil selects the default.
// If set fails, s is unchanged.
func (f *Field) set(s *Settings, value any) error {
	target := reflect.ValueOf(s).Elem().FieldByIndex(f.index)
	if value == nil {
		if value = any(f.Default); f.Default == "" {
			target.SetZero()
			return nil
		}
	}
	fresh := reflect.New(target.Type()).Elem()
	inner := fresh
	if fresh.Kind() == reflect.Pointer {
		fresh.Set(reflect.New(fresh.Type().Elem()))
		inner = fresh.Elem()
	}
	if err := f.assign(inner, value); err != nil {
		return err
	}
	if err := f.check(inner); err != nil {
		return err
	}
	target.Set(fresh)
	return nil
}

func (f *Field) assign(v reflect.Value, value any) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		switch x := value.(type) {
		case string:
			return u.UnmarshalText([]byte(x))
		case int64, float64:
			return u.UnmarshalText([]byte(fmt.Sprint(x)))
		}
		return f.wrong(value)
	}
	switch v.Kind() {
	case reflect.Bool:
		return f.assignBool(v, value)
	case reflect.Int, reflect.Int64:
		return f.assignInt(v, value)
	case reflect.Float64:
		return f.assignFloat(v, value)
	case reflect.String:
		text, ok := value.(string)
		if !ok {
			return f.wrong(value)
		}
		v.SetString(text)
		return nil
	}
	list, err := f.list(value)
	if err != nil {
		return err
	}
	v.Set(reflect.ValueOf(list))
	return nil
}

// wrong returns an error for a value of the wrong kind.
func (f *Field) wrong(value any) error {
	want := map[string]string{
		"bool": "true or false", "int": "a whole number", "float": "a number", "text": "text in quotes",
		"list": "a list of texts", "size": "a size such as 4GiB", "time": "a time such as 5m", "innerq": "N or N,STRENGTH",
	}[f.Kind]
	if f.Secret {
		return fmt.Errorf("%w: not %s", ErrValue, want)
	}
	if text, ok := value.(string); ok {
		return fmt.Errorf("%w: %q is not %s", ErrValue, text, want)
	}
	return fmt.Errorf("%w: %v is not %s", ErrValue, value, want)
}

func (f *Field) assignBool(v reflect.Value, value any) error {
	switch x := value.(type) {
	case bool:
		v.SetBool(x)
		return nil
	case string:
		switch strings.ToLower(strings.TrimSpace(x)) {
		case "1", "true", "on", "yes":
			v.SetBool(true)
			return nil
		case "0", "false", "off", "no":
			v.SetBool(false)
			return nil
		}
	}
	return f.wrong(value)
}

func (f *Field) assignInt(v reflect.Value, value any) error {
	switch x := value.(type) {
	case int:
		v.SetInt(int64(x))
		return nil
	case int64:
		v.SetInt(x)
		return nil
	case float64:
		// JSON has no integers, and 2^53 is the largest integer that its
		// numbers hold exactly
		if x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
			v.SetInt(int64(x))
			return nil
		}
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(x), 10, 64); err == nil {
			v.SetInt(n)
			return nil
		}
	}
	return f.wrong(value)
}

func (f *Field) assignFloat(v reflect.Value, value any) error {
	switch x := value.(type) {
	case float64:
		v.SetFloat(x)
		return nil
	case int:
		v.SetFloat(float64(x))
		return nil
	case int64:
		v.SetFloat(float64(x))
		return nil
	case string:
		if n, err := strconv.ParseFloat(strings.TrimSpace(x), 64); err == nil {
			v.SetFloat(n)
			return nil
		}
	}
	return f.wrong(value)
}

// list reads a list. In text, commas separate its elements.
func (f *Field) list(value any) ([]string, error) {
	switch x := value.(type) {
	case []string:
		return append([]string{}, x...), nil
	case string:
		var list []string
		for part := range strings.SplitSeq(x, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		return list, nil
	case []any:
		list := make([]string, len(x))
		for i, e := range x {
			text, ok := e.(string)
			if !ok {
				return nil, f.wrong(value)
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, f.wrong(value)
}
