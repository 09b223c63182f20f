package eval

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxResult limits the size of a stored result that is read back.
const maxResult = 64 << 20

// Results is the folder of one model's results. It has a file for every
// finished cell, and the recommendation. Its name is the identity of the
// model's file, so a renamed model keeps its results and a changed one does
// not.
type Results struct{ Dir string }

// OpenResults returns the results of a model below root. The folder is created
// when something is stored.
func OpenResults(root string, identity [32]byte) Results {
	return Results{filepath.Join(root, hex.EncodeToString(identity[:16]))}
}

// write stores a value as JSON. The file appears when it is complete.
func (r Results) write(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return r.replace(name, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// replace writes a file of the folder. The file appears when it is complete.
func (r Results) replace(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(r.Dir, name+".part*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(r.Dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Try checks that results can be stored, because they take minutes to measure.
// It writes a file of about the same size and removes it.
func (r Results) Try() error {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(r.Dir, "try.part*")
	if err != nil {
		return err
	}
	if _, err = f.Write(make([]byte, 1<<18)); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// read reads v from a file. It returns false if there is no usable file.
func (r Results) read(name string, v any) (bool, error) {
	f, err := os.Open(filepath.Join(r.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxResult))
	if err != nil {
		return false, err
	}
	// A file that cannot be read is measured again.
	return json.Unmarshal(data, v) == nil, nil
}

// Cell returns a finished cell.
func (r Results) Cell(key string) (c Cell, ok bool, err error) {
	ok, err = r.read("cell-"+key+".json", &c)
	return c, ok && c.Key == key, err
}

// Keep stores a finished cell.
func (r Results) Keep(c *Cell) error { return r.write("cell-"+c.Key+".json", c) }

// Cells returns all finished cells, in the order of their names.
func (r Results) Cells() ([]Cell, error) {
	list, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Cell
	for _, f := range list {
		key, ok := strings.CutPrefix(strings.TrimSuffix(f.Name(), ".json"), "cell-")
		if !ok || !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		c, ok, err := r.Cell(key)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Cell) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// Recommendation returns the last result of Recommend, or nil if it never ran.
func (r Results) Recommendation() (*Recommendation, error) {
	var rec Recommendation
	ok, err := r.read("recommendation.json", &rec)
	if !ok || err != nil {
		return nil, err
	}
	return &rec, nil
}

// Recommend stores a recommendation.
func (r Results) Recommend(rec *Recommendation) error { return r.write("recommendation.json", rec) }

// String returns the folder.
func (r Results) String() string { return fmt.Sprintf("results in %s", r.Dir) }
