package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// maxFile is the maximum size of the settings file.
const maxFile = 1 << 20

// ErrDamaged is the class of errors about a file that is not TOML and cannot be
// used at all.
var ErrDamaged = errors.New("damaged settings file")

// Problem is one error in a file.
type Problem struct {
	Line int    // line number from 1; 0 if unknown
	Name string // section.key; empty if the problem does not belong to one setting
	Text string
}

// Problems is the error for a file with problems. The other settings in the file
// are still used.
type Problems struct {
	Path  string
	Aside string // new path of a damaged file; empty if it was not moved
	List  []Problem

	damaged bool
}

func (p *Problems) Error() string {
	var b strings.Builder
	for i, x := range p.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Path)
		if x.Line > 0 {
			fmt.Fprintf(&b, ":%d", x.Line)
		}
		if x.Name != "" {
			fmt.Fprintf(&b, ": %s", x.Name)
		}
		fmt.Fprintf(&b, ": %s", x.Text)
	}
	if p.Aside != "" {
		fmt.Fprintf(&b, "\nmoved to %s; the defaults are in use", p.Aside)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrDamaged) true if the whole file was unusable.
func (p *Problems) Is(target error) bool { return target == ErrDamaged && p.damaged }

// File is the settings file. It is safe for concurrent use.
type File struct {
	path string

	mu     sync.RWMutex
	values map[string]any  // valid values by section.key, as TOML represents them
	locks  map[string]lock // settings that a policy locks, by section.key
}

// Open reads the file at path. A missing file is treated as empty. If the file
// has problems, the error is a *Problems. If the file cannot be read, it is the
// system's error. The returned File is always usable, with the settings that
// have no problem.
func Open(path string) (*File, error) {
	f := &File{path: path}
	data, err := readFile(path)
	if err == nil {
		f.values, err = parse(path, data)
	}
	return f, err
}

// OpenOrSetAside opens the file like Open, for a program that must start in any
// case. It renames a damaged file and puts the new name in the error. It never
// deletes the file.
func OpenOrSetAside(path string) (*File, error) {
	f, err := Open(path)
	var p *Problems
	if !errors.Is(err, ErrDamaged) || !errors.As(err, &p) {
		return f, err
	}
	aside := fmt.Sprintf("%s.damaged-%s", path, time.Now().UTC().Format("20060102-150405.000"))
	if renameErr := os.Rename(path, aside); renameErr != nil {
		return f, errors.Join(err, renameErr)
	}
	p.Aside = aside
	return f, p
}

// Path returns the path of the file, which may not exist.
func (f *File) Path() string { return f.path }

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if len(data) > maxFile {
		return nil, damaged(path, 0, fmt.Sprintf("the file is larger than %d bytes", maxFile))
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil
}

func damaged(path string, line int, text string) *Problems {
	return &Problems{Path: path, List: []Problem{{Line: line, Text: text}}, damaged: true}
}

// parse returns the valid values in a file, and a *Problems error about the
// others.
func parse(path string, data []byte) (map[string]any, error) {
	tree, err := decode(path, data)
	if err != nil {
		return nil, err
	}
	return check(path, tree, lineNumbers(data))
}

// decode reads TOML.
func decode(path string, data []byte) (tree map[string]any, err error) {
	if err := toml.Unmarshal(data, &tree); err != nil {
		var at *toml.DecodeError
		line := 0
		if errors.As(err, &at) {
			line, _ = at.Position()
		}
		return nil, damaged(path, line, strings.TrimPrefix(err.Error(), "toml: "))
	}
	return tree, nil
}

// check returns the valid values of a decoded file, and a *Problems error about the
// others.
func check(path string, tree map[string]any, lines map[string]int) (map[string]any, error) {
	values := map[string]any{}
	var problems []Problem
	fault := func(name, text string) {
		problems = append(problems, Problem{lines[name], name, text})
	}
	var trial Settings
	for section, inner := range tree {
		keys, isTable := inner.(map[string]any)
		if !isTable || !isSection(section) {
			fault(section, "unknown section"+suggest(section, sections()))
			continue
		}
		for key, value := range keys {
			name := section + "." + key
			field, ok := Find(name)
			if !ok {
				fault(name, "unknown setting"+suggest(name, names()))
			} else if err := field.set(&trial, value); err != nil {
				fault(name, err.Error())
			} else {
				values[name] = value
			}
		}
	}
	if len(problems) == 0 {
		return values, nil
	}
	slices.SortFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Name, b.Name)
	})
	return values, &Problems{Path: path, List: problems}
}

func sections() []string {
	var all []string
	for _, name := range names() {
		if section, _, _ := strings.Cut(name, "."); !slices.Contains(all, section) {
			all = append(all, section)
		}
	}
	return all
}

func isSection(name string) bool { return slices.Contains(sections(), name) }

func names() []string {
	all := make([]string, len(fields))
	for i := range fields {
		all[i] = fields[i].Name
	}
	return all
}

// suggest returns the known word that is most similar, or "" if none is similar.
func suggest(word string, known []string) string {
	best, near := "", max(len(word)/4, 1)+1
	for _, k := range known {
		if d := distance(word, k); d < near {
			best, near = k, d
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
}

// distance returns how many letters must be inserted, dropped or changed to
// turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := above
			if a[i] != b[j] {
				change++
			}
			above = row[j+1]
			row[j+1] = min(change, row[j]+1, above+1)
		}
	}
	return row[len(b)]
}

// replaceFile replaces the file at path atomically. A reader sees the old or the
// new content, and on a full disk the old content stays.
func replaceFile(path string, data []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
