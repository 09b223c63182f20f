// Package requant writes copies of models with matrices of other types.
package requant

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"godwit/engine/dtype"
	"godwit/engine/fault"
	"godwit/engine/gguf"
	"godwit/engine/quant"
)

// ErrQuantize is wrapped by errors about models that cannot be quantised.
var ErrQuantize = errors.New("quantize")

// Result describes what Quantize did.
type Result struct {
	Types         map[dtype.Type]int // number of tensors of each type in the new file
	Changed       int                // number of tensors whose type changed
	Before, After int64              // bytes of tensor data
}

// Quantize writes a copy of a model with matrices of another type, one of Types.
// Matrices of F32, F16 and BF16 change, and others stay. The new file appears under
// its name when it is complete. progress is called with the share of the work that
// is done, and its error cancels the work. progress may be nil.
func Quantize(ctx context.Context, in, out, to string, progress func(share float64) error) (Result, error) {
	i := slices.IndexFunc(mixes, func(m mix) bool { return strings.EqualFold(m.name, to) })
	if i < 0 {
		return Result{}, fmt.Errorf("%w: unknown type %q; known: %s", ErrQuantize, to, strings.Join(Types(), ", "))
	}
	f, err := gguf.Open(in)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("no model at %s: %w", in, err)
	}
	if err != nil {
		return Result{}, err
	}
	q := &quantizer{ctx: ctx, mix: mixes[i], f: f, progress: progress, done: Result{Types: make(map[dtype.Type]int)}}
	if err = q.choose(in, out); err == nil {
		err = q.save(out)
	}
	return q.done, errors.Join(err, f.Close())
}

// quantizer is one run of Quantize.
type quantizer struct {
	mix
	ctx      context.Context
	f        *gguf.File
	progress func(float64) error
	tensors  []gguf.Tensor // tensors of the new file, without data
	done     Result
	elems    int64 // number of elements of all matrices that change
	made     int64 // number of these elements that are done
}

// choose picks the type of every tensor.
func (q *quantizer) choose(in, out string) error {
	if a, err := os.Stat(in); err == nil {
		if b, err := os.Stat(out); err == nil && os.SameFile(a, b) {
			return fmt.Errorf("%w: %s would be written over itself", ErrQuantize, in)
		}
	}
	q.tensors = slices.Clone(q.f.Tensors)
	order := make([]*gguf.Tensor, len(q.tensors))
	for i := range q.tensors {
		order[i] = &q.tensors[i]
		if t := order[i]; t.Shape[0] > slab { // a sparse file can claim huge rows
			return fmt.Errorf("%w: rows of %q have %d values; the limit is %d", ErrQuantize, t.Name, t.Shape[0], slab)
		}
	}
	slices.SortStableFunc(order, byLayer)
	c := newChooser(q.mix, q.f)
	for _, t := range order {
		q.done.Before += int64(len(t.Data))
		if quantises(t) && t.Type.IsFloat() && t.Type != dtype.F64 {
			if ty := c.pick(t); ty != t.Type {
				t.Type = ty
				q.done.Changed++
				q.elems += int64(t.Shape[0]) * int64(t.Rows())
			}
		}
		q.done.Types[t.Type]++
		q.done.After += int64(t.Type.RowBytes(t.Shape[0])) * int64(t.Rows())
	}
	if q.done.Changed == 0 {
		return fmt.Errorf("%w: the matrices of %s are %s; quantise a copy in F32, F16 or BF16 instead", ErrQuantize, in, q.packed())
	}
	return nil
}

// packed lists the names of the types that are not floating point.
func (q *quantizer) packed() string {
	var names []string
	for ty := range q.done.Types {
		if !ty.IsFloat() {
			names = append(names, ty.String())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// metadata returns the old file's metadata with the new file type. The new file
// is not split.
func (q *quantizer) metadata() []gguf.KV {
	var kv []gguf.KV
	for key, v := range q.f.KV.All() {
		if key == "general.file_type" || key == "general.quantization_version" || strings.HasPrefix(key, "split.") {
			continue
		}
		kv = append(kv, gguf.KV{Key: key, Value: v})
	}
	kv = append(kv, gguf.KV{Key: "general.quantization_version", Value: uint32(2)})
	if q.number >= 0 {
		kv = append(kv, gguf.KV{Key: "general.file_type", Value: uint32(q.number)})
	}
	return kv
}

// save writes a temporary file and renames it.
func (q *quantizer) save(out string) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	b := bufio.NewWriterSize(tmp, 1<<20)
	w, err := gguf.NewWriter(b, q.metadata(), q.tensors)
	if err != nil {
		return err
	}
	for i := range q.tensors {
		if err = q.write(w, &q.f.Tensors[i], q.tensors[i].Type); err != nil {
			return fmt.Errorf("%q: %w", q.f.Tensors[i].Name, err)
		}
	}
	if err = w.Close(); err != nil {
		return err
	}
	if err = b.Flush(); err != nil {
		return err
	}
	if err = tmp.Chmod(0o644); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	if err = os.Rename(tmp.Name(), out); err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// slab is the number of values that are processed at once.
const slab = 1 << 22

// write copies a tensor, or encodes it slab by slab.
func (q *quantizer) write(w *gguf.Writer, t *gguf.Tensor, to dtype.Type) error {
	if err := q.ctx.Err(); err != nil {
		return err
	}
	if to == t.Type {
		return q.copy(w, t.Data)
	}
	cols, rows := t.Shape[0], t.Rows()
	n := max(1, slab/cols)
	buf := make([]byte, min(n, rows)*to.RowBytes(cols))
	for at := 0; at < rows; at += n {
		count := min(n, rows-at)
		dst := buf[:count*to.RowBytes(cols)]
		size := t.Type.RowBytes(cols)
		if err := encodeRows(dst, t.Data[at*size:(at+count)*size], cols, count, t.Type, to); err != nil {
			return err
		}
		if _, err := w.Write(dst); err != nil {
			return err
		}
		q.made += int64(count) * int64(cols)
		if err := q.report(); err != nil {
			return err
		}
	}
	return nil
}

// copy copies bytes of the old file through a buffer. If it wrote mapped pages directly and the
// file was cut short, the write would only return a bad-address error.
func (q *quantizer) copy(w *gguf.Writer, data []byte) error {
	buf := make([]byte, min(len(data), slab))
	for len(data) > 0 {
		n := min(len(data), len(buf))
		if err := fault.Guard(func() error { copy(buf, data[:n]); return nil }); err != nil {
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (q *quantizer) report() error {
	if err := q.ctx.Err(); err != nil || q.progress == nil {
		return err
	}
	return q.progress(float64(q.made) / float64(q.elems))
}

// encodeRows converts rows from one type to another, on all processors.
func encodeRows(dst, src []byte, cols, rows int, from, to dtype.Type) error {
	workers := min(runtime.GOMAXPROCS(0), rows)
	errs := make([]error, workers)
	var g sync.WaitGroup
	for i := range workers {
		lo, hi := i*rows/workers, (i+1)*rows/workers
		g.Go(func() {
			errs[i] = fault.Guard(func() error {
				row := make([]float32, cols)
				in, out := from.RowBytes(cols), to.RowBytes(cols)
				for r := lo; r < hi; r++ {
					if err := encodeRow(dst[r*out:(r+1)*out], row, src[r*in:(r+1)*in], from, to); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	g.Wait()
	return errors.Join(errs...)
}

func encodeRow(dst []byte, row []float32, src []byte, from, to dtype.Type) error {
	if err := quant.Decode(from, row, src); err != nil {
		return err
	}
	for i, x := range row {
		if x-x != 0 {
			return fmt.Errorf("%w: value %d of a row is %g", ErrQuantize, i, x)
		}
	}
	return quant.Encode(to, dst, row, nil)
}
