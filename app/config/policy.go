package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ErrLocked is the class of errors about settings that a policy file locks.
var ErrLocked = errors.New("locked by the policy file")

// lock is a setting that a policy file locks.
type lock struct {
	path  string // path of the policy file
	value any    // locked value; nil: the value in the settings file, else the default
}

// refuse returns the error for a change of a locked setting.
func (l lock) refuse(name string) error { return fmt.Errorf("%s: %w %s", name, ErrLocked, l.path) }

// lockList is the key in a policy file that lists settings and sections to lock
// without a value.
const lockList = "lock"

// Lock applies a policy file, which has the form of the settings file: its settings
// are locked to their values. The list lock names further settings or sections, which
// are locked to the value in the settings file, else to the default. Flags, the
// environment and Save cannot change a locked setting.
//
// Several policy files may apply. A file with any problem, or with another value for
// a locked setting, changes nothing and gives an error.
func (f *File) Lock(path string) error {
	data, err := readFile(path)
	if err != nil {
		return err
	}
	if data == nil {
		return fmt.Errorf("policy file %s: no such file", path)
	}
	tree, err := decode(path, data)
	if err != nil {
		return err
	}
	kept, err := lockedNames(path, tree[lockList])
	if err != nil {
		return err
	}
	delete(tree, lockList)
	values, err := check(path, tree, lineNumbers(data))
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	locks := maps.Clone(f.locks)
	if locks == nil {
		locks = map[string]lock{}
	}
	for _, name := range kept {
		if _, set := values[name]; !set {
			values[name] = nil
		}
	}
	for name, value := range values {
		field, _ := Find(name)
		if old, ok := locks[name]; ok && !field.same(old.value, value) {
			return fmt.Errorf("%s: %s: already %w %s", path, name, ErrLocked, old.path)
		} else if !ok {
			locks[name] = lock{path, value}
		}
	}
	f.locks = locks
	return nil
}

// lockedNames returns the settings in the list of a policy file.
func lockedNames(path string, list any) (found []string, err error) {
	if list == nil {
		return nil, nil
	}
	wrong := func(what any) error {
		return damaged(path, 0, fmt.Sprintf("%s: %v is not a setting or a section, such as [\"server.host\", \"engine\"]", lockList, what))
	}
	all, ok := list.([]any)
	if !ok {
		return nil, wrong(list)
	}
	for _, x := range all {
		name, _ := x.(string)
		if field, ok := Find(name); ok && field.Name == name {
			found = append(found, name)
			continue
		}
		if !isSection(name) {
			return nil, wrong(x)
		}
		for i := range fields {
			if strings.HasPrefix(fields[i].Name, name+".") && !fields[i].Hidden {
				found = append(found, fields[i].Name)
			}
		}
	}
	return found, nil
}

// Locked returns an error if a policy file locks a setting to another value. name is
// the setting's name or flag. The value is text, a value of the setting's type, or of
// a type that Value returns.
func (f *File) Locked(name string, value any) error {
	field, ok := Find(name)
	if !ok {
		return nil
	}
	l, ok := f.lockOf(field.Name)
	if !ok || field.same(f.lockedValue(&field, l), plain(reflect.ValueOf(value))) {
		return nil
	}
	return l.refuse(field.Name)
}

// Policy returns the path of the policy file that locks a setting, or "". name is the
// setting's name or flag.
func (f *File) Policy(name string) string {
	field, _ := Find(name)
	l, _ := f.lockOf(field.Name)
	return l.path
}

// Refused returns an error if a policy file locks a setting. name is the setting's
// name or flag.
func (f *File) Refused(name string) error {
	field, _ := Find(name)
	if l, ok := f.lockOf(field.Name); ok {
		return l.refuse(field.Name)
	}
	return nil
}

func (f *File) lockOf(name string) (lock, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	l, ok := f.locks[name]
	return l, ok
}

// lockedValue returns the value to which a setting is locked; nil is the default.
func (f *File) lockedValue(field *Field, l lock) any {
	if l.value != nil {
		return l.value
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.values[field.Name]
}

// Overruled returns the settings in the file that a policy file locks to another
// value. They have no effect. Without one it returns nil.
func (f *File) Overruled() *Problems {
	f.mu.RLock()
	defer f.mu.RUnlock()
	p := &Problems{Path: f.path}
	var lines map[string]int
	for _, name := range slices.Sorted(maps.Keys(f.locks)) {
		value, set := f.values[name]
		l := f.locks[name]
		field, _ := Find(name)
		if !set || l.value == nil || field.same(l.value, value) {
			continue
		}
		if lines == nil {
			data, _ := readFile(f.path) // without lines the report is still useful
			lines = lineNumbers(data)
		}
		p.List = append(p.List, Problem{lines[name], name, fmt.Sprintf("%v %s; this value has no effect", ErrLocked, l.path)})
	}
	if len(p.List) == 0 {
		return nil
	}
	return p
}

// same reports whether two raw values of a setting are equal. A value that is invalid
// for the setting differs from every other.
func (f *Field) same(a, b any) bool {
	var x, y Settings
	return f.set(&x, a) == nil && f.set(&y, b) == nil && Equal(f.Value(&x), f.Value(&y))
}
