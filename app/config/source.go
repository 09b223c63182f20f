package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Env looks up an environment variable, as os.LookupEnv does.
type Env func(name string) (string, bool)

// Origin is the source of a value.
type Origin string

// The origins of a value. Later ones take precedence.
const (
	FromDefault     Origin = "default"
	FromFile        Origin = "file"
	FromEnvironment Origin = "environment"
	FromFlag        Origin = "flag"
	FromPolicy      Origin = "policy" // a policy file locks the value
)

// Settings returns the settings from environment, file and defaults. Variables with
// invalid values are ignored and reported in the error.
func (f *File) Settings(env Env) (Settings, error) {
	s := Default()
	var errs []error
	for i := range fields {
		field := &fields[i]
		value, _, err := f.lookup(field, env)
		if err == nil && value != nil {
			err = field.set(&s, value)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return s, errors.Join(errs...)
}

// Lookup returns the value of a setting whose flag was not given, as text or as
// a list. kong's resolver uses it. name is the setting's name or flag.
// FromDefault means that neither the environment nor a file sets the value.
func (f *File) Lookup(name string, env Env) (any, Origin, error) {
	field, ok := Find(name)
	if !ok {
		return nil, FromDefault, nil
	}
	value, from, err := f.lookup(&field, env)
	if err != nil || value == nil {
		return nil, from, err
	}
	if field.Kind == "list" {
		list, err := field.list(value)
		wide := make([]any, len(list))
		for i, text := range list {
			wide[i] = text
		}
		return wide, from, err
	}
	return fmt.Sprint(value), from, nil
}

// lookup returns the raw value, which is valid for the setting. It is nil for the
// default.
func (f *File) lookup(field *Field, env Env) (any, Origin, error) {
	locked, isLocked := f.lockOf(field.Name)
	for _, name := range field.Env {
		text, ok := env(name)
		if !ok || text == "" {
			continue
		}
		value := foreign(name, text)
		var trial Settings
		if err := field.set(&trial, value); err != nil {
			return nil, FromEnvironment, fmt.Errorf("$%s: %w", name, err)
		}
		if !isLocked {
			return value, FromEnvironment, nil
		}
		if err := f.Locked(field.Name, value); err != nil {
			return nil, FromEnvironment, fmt.Errorf("$%s: %w", name, err)
		}
	}
	if isLocked {
		return f.lockedValue(field, locked), FromPolicy, nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if value, ok := f.values[field.Name]; ok {
		return value, FromFile, nil
	}
	return nil, FromDefault, nil
}

// foreign converts the environment variables of a llama.cpp fork to Godwit's
// values, by that fork's rules. A layer policy that is not a number counts as
// 0. Unknown numbers have no effect, as with 0. The two switches are off if the
// text starts with 0. Other variables are returned unchanged.
func foreign(name, text string) string {
	switch name {
	case "TURBO_LAYER_ADAPTIVE":
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 || n > 7 {
			n = 0
		}
		return strconv.Itoa(n)
	case "TURBO_AUTO_ASYMMETRIC":
		return strconv.FormatBool(!strings.HasPrefix(text, "0"))
	case "TURBO_SPARSE_V":
		if strings.HasPrefix(text, "0") {
			return "0"
		}
		field, _ := Find("engine.sparse_v")
		return field.Default
	}
	return text
}
