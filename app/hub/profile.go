package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Profile holds the settings that a derived model adds to its base model. The two
// models share their files.
type Profile struct {
	From       string          `json:"from"` // name of the base model at the time of derivation
	System     string          `json:"system,omitempty"`
	Template   string          `json:"template,omitempty"`                // Jinja
	Parameters json.RawMessage `json:"parameters,omitempty" ts:"unknown"` // object of sampling options
	Messages   json.RawMessage `json:"messages,omitempty" ts:"unknown[]"` // messages at the start of every conversation
	Licence    string          `json:"licence,omitempty"`
}

// ErrTaken is the class of errors about names that another model already has.
var ErrTaken = errors.New("the name is taken")

// profileName matches valid names of derived models.
var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// checkDerived rejects invalid names for derived models.
func checkDerived(name string) error {
	if !profileName.MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, "//") {
		return fmt.Errorf("%w: %.64q; want up to 128 letters, digits and . _ - / :, beginning with a letter or digit", ErrName, name)
	}
	return nil
}

// Derive adds a model to the library that shares another model's files. It
// replaces an earlier derived model of the same name. If the name belongs to
// the base model itself, that model gets the profile. Derive never replaces a
// different model that has its own files, because no name would refer to these
// files any more.
func (l *Library) Derive(ctx context.Context, name string, from *Model, p Profile) (Model, error) {
	if err := checkDerived(name); err != nil {
		return Model{}, err
	}
	entries, err := l.entries()
	if err != nil {
		return Model{}, err
	}
	i := slices.IndexFunc(entries, func(e entry) bool { return e.Name == from.Name })
	if i < 0 {
		return Model{}, fmt.Errorf("%w: %q is not in the library", ErrNotFound, from.Name)
	}
	e := entries[i]
	if old := from.Profile; old != nil {
		p = p.over(old)
	}
	made := entry{Name: name, Source: e.Source, Licence: e.Licence, Files: e.Files, Linked: e.Linked, Added: time.Now().UTC().Truncate(time.Second), Profile: &p}
	itself := strings.EqualFold(e.Name, name)
	if itself {
		made = e
		made.Profile, made.found = &p, false
	}
	if p.Licence != "" {
		made.Licence = p.Licence
	}
	err = l.change(ctx, func(x *index) error {
		for _, old := range entries {
			if strings.EqualFold(old.Name, name) && !itself && (old.Profile == nil || alone(entries, &old, &made)) {
				return fmt.Errorf("%w: %s is a model with its own files; delete it first, or choose another name", ErrTaken, old.Name)
			}
		}
		if e.found && !itself { // from now on, the index lists its file
			x.Models = append(x.Models, e)
		}
		x.Models = slices.DeleteFunc(x.Models, func(old entry) bool { return strings.EqualFold(old.Name, name) && (itself || old.Profile != nil) })
		x.Models = append(x.Models, made)
		return nil
	})
	if err != nil {
		return Model{}, err
	}
	return l.model(made, true), nil
}

// alone reports whether a model is the only one with its files, so that no derived
// model shares them.
func alone(entries []entry, old, made *entry) bool {
	n := 0
	for _, e := range append(entries, *made) {
		if e.Files[0].Path == old.Files[0].Path {
			n++
		}
	}
	return n == 1
}

// over returns a profile with an older profile's values for the fields that it does
// not set.
func (p Profile) over(old *Profile) Profile {
	out := *old
	if p.From != "" {
		out.From = p.From
	}
	if p.System != "" {
		out.System = p.System
	}
	if p.Template != "" {
		out.Template = p.Template
	}
	if p.Parameters != nil {
		out.Parameters = p.Parameters
	}
	if p.Messages != nil {
		out.Messages = p.Messages
	}
	if p.Licence != "" {
		out.Licence = p.Licence
	}
	return out
}

// forget removes a derived model from the index. Files that only derived models
// use are deleted with the last of these models.
func (l *Library) forget(ctx context.Context, e *entry) error {
	var orphans []string
	err := l.change(ctx, func(x *index) error {
		x.Models = slices.DeleteFunc(x.Models, func(old entry) bool { return old.Name == e.Name && old.Profile != nil })
		if !e.Linked && !x.uses(e.Files[0].Path) {
			for _, f := range e.Files {
				orphans = append(orphans, f.Path)
			}
		}
		return nil
	})
	if err != nil || len(orphans) == 0 {
		return err
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return err
	}
	for _, p := range orphans {
		err = errors.Join(err, ignoreMissing(root.Remove(filepath.FromSlash(p))))
	}
	return errors.Join(err, root.Close())
}

// uses reports whether a file is the first file of a model.
func (x *index) uses(path string) bool {
	return slices.ContainsFunc(x.Models, func(e entry) bool { return e.Files[0].Path == path })
}
