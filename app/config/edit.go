package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Save changes settings in the file, by section.key. nil removes a setting, so
// that its default applies again. Comments, order and other settings are
// unchanged, including invalid ones. Save makes either all changes or, if it
// returns an error, none. It does not change a damaged file, or a setting that a
// policy file locks.
func (f *File) Save(changes map[string]any) error {
	var trial Settings
	for name, value := range changes {
		field, ok := Find(name)
		if !ok || field.Name != name {
			return fmt.Errorf("%w: %s: unknown setting%s", ErrValue, name, suggest(name, names()))
		}
		if err := field.set(&trial, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := f.Locked(name, value); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := readFile(f.path)
	if err != nil {
		return err
	}
	if _, err := parse(f.path, data); errors.Is(err, ErrDamaged) {
		return err
	}
	for i := range fields {
		field := &fields[i]
		value, ok := changes[field.Name]
		if !ok {
			continue
		}
		text := ""
		if value != nil {
			if text, err = tomlValue(field.Value(&trial)); err != nil {
				return err
			}
		}
		if data, err = edit(data, field.Name, text); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	values, err := parse(f.path, data)
	if errors.Is(err, ErrDamaged) {
		return err
	}
	if err := replaceFile(f.path, data); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	f.values = values
	return nil
}

// tomlValue writes a value in TOML's notation on one line.
func tomlValue(value any) (string, error) {
	out, err := toml.Marshal(map[string]any{"k": value})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "k = ")), nil
}

// place is the location of a setting or a section header in a file.
type place struct {
	name       string
	header     bool // whether it is a section header such as [section]
	start, end int  // offsets of the whole expression
	value      int  // offset of the value
}

// places finds the expressions in a file, which must be valid TOML.
func places(data []byte) ([]place, error) {
	var (
		p      unstable.Parser
		found  []place
		prefix string
	)
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		var parts []string
		var last unstable.Range
		first := -1
		for key := e.Key(); key.Next(); {
			last = key.Node().Raw
			if first < 0 {
				first = int(last.Offset)
			}
			parts = append(parts, string(key.Node().Data))
		}
		at := place{start: first, end: int(last.Offset + last.Length)}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			prefix = strings.Join(parts, ".")
			at.name, at.header = prefix, true
		case unstable.KeyValue:
			at.name = strings.TrimPrefix(prefix+"."+strings.Join(parts, "."), ".")
			equals := at.end + bytes.IndexByte(data[at.end:], '=') + 1
			at.value = equals + len(data[equals:]) - len(bytes.TrimLeft(data[equals:], " \t"))
			end := int(e.Raw.Offset + e.Raw.Length)
			at.end = len(bytes.TrimRight(data[:end], " \t\r\n"))
		default:
			continue
		}
		found = append(found, at)
	}
	return found, p.Error()
}

// lineNumbers returns the line of every setting and section, counted from 1.
func lineNumbers(data []byte) map[string]int {
	found, err := places(data)
	if err != nil {
		return nil
	}
	lines := map[string]int{}
	for _, p := range found {
		line := 1 + bytes.Count(data[:p.start], []byte("\n"))
		for name := p.name; name != ""; {
			if _, ok := lines[name]; !ok {
				lines[name] = line
			}
			cut := strings.LastIndexByte(name, '.')
			name = name[:max(cut, 0)]
		}
	}
	return lines
}

// edit sets one setting to a TOML value, or removes its line if the value is empty.
func edit(data []byte, name, value string) ([]byte, error) {
	found, err := places(data)
	if err != nil {
		return nil, err
	}
	section, key, _ := strings.Cut(name, ".")
	insert := -1 // offset after the section's last expression; -1 if the section is missing
	inSection := false
	for _, p := range found {
		if p.header {
			inSection = p.name == section
		}
		if p.name == section && !p.header {
			return nil, fmt.Errorf("%w: %s is written as { … }; write it as [%s] so that it can be changed", ErrValue, section, section)
		}
		if p.name == name && !p.header {
			if value == "" {
				return cutLines(data, p), nil
			}
			return slices.Concat(data[:p.value], []byte(value), data[p.end:]), nil
		}
		if inSection {
			insert = p.end
		}
	}
	if value == "" {
		return data, nil
	}
	line := key + " = " + value + "\n"
	if insert < 0 {
		var gap string
		if len(data) > 0 && data[len(data)-1] != '\n' {
			gap = "\n"
		}
		if len(data) > 0 {
			gap += "\n"
		}
		return slices.Concat(data, []byte(gap+"["+section+"]\n"+line)), nil
	}
	if end := bytes.IndexByte(data[insert:], '\n'); end >= 0 {
		insert += end + 1
		return slices.Concat(data[:insert], []byte(line), data[insert:]), nil
	}
	return slices.Concat(data, []byte("\n"+line)), nil
}

// cutLines removes the lines of an expression, with the comment after it.
func cutLines(data []byte, p place) []byte {
	start := bytes.LastIndexByte(data[:p.start], '\n') + 1
	end := bytes.IndexByte(data[p.end:], '\n')
	if end < 0 {
		return bytes.Clone(data[:start])
	}
	return slices.Concat(data[:start], data[p.end+end+1:])
}
