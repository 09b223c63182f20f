package config

import (
	"errors"
	"slices"
	"sync"
)

// Live holds the settings of a running program: the current environment and
// file, overridden by the flags with which it was started.
type Live struct {
	file  *File
	env   Env
	flags map[string]any // settings from the command line, by name

	mu    sync.Mutex
	apply []func(*Settings) error
}

// NewLive returns the settings of a running program. err reports invalid values in
// the environment or the file, but Live is valid even then.
func NewLive(file *File, env Env, start Settings) (l *Live, err error) {
	base, err := file.Settings(env)
	l = &Live{file: file, env: env, flags: map[string]any{}}
	for i := range fields {
		f := &fields[i]
		if value := f.Value(&start); f.Flag != "" && !Equal(f.Value(&base), value) {
			l.flags[f.Name] = value
		}
	}
	return l, err
}

// Equal compares two values of a setting.
func Equal(a, b any) bool {
	x, ok := a.([]string)
	y, ok2 := b.([]string)
	if ok && ok2 {
		return slices.Equal(x, y)
	}
	return a == b
}

// Settings returns the current settings.
func (l *Live) Settings() (Settings, error) {
	s, err := l.file.Settings(l.env)
	if err != nil {
		return s, err
	}
	return s.With(l.flags)
}

// Origin returns the source of a setting's value.
func (l *Live) Origin(name string) Origin {
	if l.Policy(name) != "" {
		return FromPolicy
	}
	if _, ok := l.flags[name]; ok {
		return FromFlag
	}
	if _, origin, err := l.file.Lookup(name, l.env); err == nil {
		return origin
	}
	return FromDefault
}

// Policy returns the path of the policy file that locks a setting, or "".
func (l *Live) Policy(name string) string { return l.file.Policy(name) }

// Path returns the path of the file.
func (l *Live) Path() string { return l.file.Path() }

// OnChange registers a function that applies changed settings, as far as that is
// possible without a load or a restart.
func (l *Live) OnChange(f func(*Settings) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply = append(l.apply, f)
}

// Change writes changes to the file and applies them. If one change is rejected,
// none is made.
func (l *Live) Change(changes map[string]any, old, changed *Settings) error {
	err := l.applied(changed)
	if err == nil {
		err = l.file.Save(changes)
	}
	if err != nil {
		return errors.Join(err, l.applied(old))
	}
	return nil
}

func (l *Live) applied(s *Settings) error {
	l.mu.Lock()
	list := slices.Clone(l.apply)
	l.mu.Unlock()
	for _, f := range list {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}
