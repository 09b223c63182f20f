package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Env looks up an environment variable, as os.LookupEnv does.
type Env func(name string) (string, bool)

// Origin says where a value came from.
type Origin string

// The origins of a value, the later before the earlier.
const (
	FromDefault     Origin = "default"
	FromFile        Origin = "file"
	FromEnvironment Origin = "environment"
	FromFlag        Origin = "flag"
)

// Settings returns the settings of environment, file and defaults. Variables with
// bad values are joined into the error and left out.
func (f *File) Settings(env Env) (Settings, error) {
	s := Default()
	var errs []error
	for i := range fields {
		field := &fields[i]
		value, from, err := f.lookup(field, env)
		if err == nil && from != FromDefault {
			err = field.set(&s, value)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return s, errors.Join(errs...)
}

// Lookup returns what a setting is where no flag was given, in the form that a
// resolver of kong passes on: text, or a list. name is the setting's name or flag.
// FromDefault means that neither environment nor file say anything.
func (f *File) Lookup(name string, env Env) (any, Origin, error) {
	field, ok := Find(name)
	if !ok {
		return nil, FromDefault, nil
	}
	value, from, err := f.lookup(&field, env)
	if err != nil || from == FromDefault {
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

// lookup returns the raw value; it fits the setting.
func (f *File) lookup(field *Field, env Env) (any, Origin, error) {
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
		return value, FromEnvironment, nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if value, ok := f.values[field.Name]; ok {
		return value, FromFile, nil
	}
	return nil, FromDefault, nil
}

// foreign translates the variables that a fork of llama.cpp reads into our values,
// by that fork's rules: a layer policy that is not a number counts as 0 and unknown
// numbers do nothing, as 0 does; the two switches are off where the text starts
// with 0. Other variables are returned as they are.
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
