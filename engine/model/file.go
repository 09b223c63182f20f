package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/quant"
)

// maxLayers limits how much memory a hostile file can make a model allocate.
const maxLayers = 4096

// maxTrial limits the number of blocks that an Opener reads in the search for the
// nearest architecture.
const maxTrial = 256

// File gives an Opener the hyper-parameters of its architecture and the weights. It
// keeps the first error. Getters then return harmless values, so the Opener need not
// check each call.
type File struct {
	gguf   *gguf.File
	arch   string
	prefix string          // first part of the keys
	blocks int             // block_count, once it has been read
	trunk  int             // number of blocks before the blocks that only predict further tokens
	used   map[string]bool // tensors that were bound
	err    error
	// A trial continues to bind tensors after an error, and lists the missing
	// tensors.
	trial   bool
	missing []string
}

// NewFile returns a File for an Opener, or for a reader of other files whose keys
// also begin with the architecture's name.
func NewFile(f *gguf.File) *File {
	return &File{gguf: f, arch: f.Arch(), prefix: f.Arch(), used: map[string]bool{}}
}

// Err returns the first error.
func (f *File) Err() error { return f.err }

// Fail records an error about a hyper-parameter.
func (f *File) Fail(key, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%w %s: %s", ErrParam, key, fmt.Sprintf(format, args...))
	}
}

func (f *File) key(key string) string { return f.prefix + "." + key }

// Has reports whether the architecture's key is present.
func (f *File) Has(key string) bool { return f.gguf.KV.Has(f.key(key)) }

// Int returns a required integer from 1 to 2^31-1.
func (f *File) Int(key string) int {
	v, ok := f.gguf.KV.Uint(f.key(key))
	if !ok || v == 0 || v > math.MaxInt32 {
		f.Fail(f.key(key), "missing, or not an integer from 1 to %d", math.MaxInt32)
		return 1
	}
	return int(v)
}

// IntOr returns an optional integer from 0 to 2^31-1.
func (f *File) IntOr(key string, def int) int {
	if !f.Has(key) {
		return def
	}
	v, ok := f.gguf.KV.Uint(f.key(key))
	if !ok || v > math.MaxInt32 {
		f.Fail(f.key(key), "not an integer from 0 to %d", math.MaxInt32)
		return max(def, 1)
	}
	return int(v)
}

// Float returns a required number.
func (f *File) Float(key string) float32 {
	if !f.Has(key) {
		f.Fail(f.key(key), "missing")
		return 1
	}
	return f.FloatOr(key, 1)
}

// FloatOr returns the finite number of an optional key, or def without the key.
func (f *File) FloatOr(key string, def float32) float32 {
	if !f.Has(key) {
		return def
	}
	v, ok := f.gguf.KV.Float(f.key(key))
	if x := float32(v); ok && x-x == 0 { // neither infinite nor NaN
		return x
	}
	f.Fail(f.key(key), "not a finite number of 32 bits")
	return def
}

// Factor returns an optional number by which values are multiplied, divided or
// bounded. It is 0 for none, or from 1/maxFactor to maxFactor, which is a thousand
// times what known models use.
func (f *File) Factor(key string, def float32) float32 {
	v := f.FloatOr(key, def)
	if v != 0 && !(v >= 1.0/maxFactor && v <= maxFactor) {
		f.Fail(f.key(key), "%g is neither 0 nor from %g to %g", v, 1.0/maxFactor, float64(maxFactor))
		return def
	}
	return v
}

const maxFactor = 1 << 20

// Epsilon returns the required term that keeps a norm from dividing by 0.
func (f *File) Epsilon(key string) float32 {
	v := f.Float(key)
	if v < 0 || v > 1 {
		f.Fail(f.key(key), "%g is not from 0 to 1", v)
		return 1
	}
	return v
}

// BoolOr returns an optional truth value.
func (f *File) BoolOr(key string, def bool) bool {
	v, ok := f.gguf.KV.Bool(f.key(key))
	if !ok && f.Has(key) {
		f.Fail(f.key(key), "not a truth value")
	}
	if !ok {
		return def
	}
	return v
}

// StringOr returns an optional string.
func (f *File) StringOr(key, def string) string {
	v, ok := f.gguf.KV.String(f.key(key))
	if !ok && f.Has(key) {
		f.Fail(f.key(key), "not a string")
	}
	if !ok {
		return def
	}
	return v
}

// left reports the tensors that were not bound and that the architecture does not
// list as unread. Answers without them would be wrong.
func (f *File) left(a *Arch) error {
	var names []string
	for i := range f.gguf.Tensors {
		t := &f.gguf.Tensors[i]
		if f.used[t.Name] || !a.needs(t.Name) {
			continue
		}
		block := -1
		if _, err := fmt.Sscanf(t.Name, "blk.%d.", &block); err == nil && f.blocks > 0 && block >= f.blocks {
			return fmt.Errorf("%w %q: the model has %d blocks (%s)", ErrTensor, t.Name, f.blocks, f.key("block_count"))
		}
		if a.Ahead && block >= f.trunk {
			continue
		}
		names = append(names, t.String())
	}
	if len(names) == 0 {
		return nil
	}
	const most = 8
	list := strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%w: %s does not read %s; answers without them would be wrong, so the file is refused (its metadata may be incomplete)", ErrTensor, f.arch, list)
}

// Layers reads block_count.
func (f *File) Layers() int {
	n := f.Int("block_count")
	if n > maxLayers {
		f.Fail(f.key("block_count"), "%d blocks; at most %d are supported", n, maxLayers)
		return 1
	}
	if f.trial {
		n = max(1, min(n, maxTrial, len(f.gguf.Tensors)))
	}
	f.blocks = n
	return n
}

// array returns the array of a key, or nil if it is missing or has fewer than n
// values.
func (f *File) array(key string, n int) *gguf.Value {
	v, ok := f.gguf.KV.Value(f.key(key))
	if !ok || !v.IsArray {
		return nil
	}
	if v.Len() < n {
		f.Fail(f.key(key), "%d values, want %d", v.Len(), n)
		return nil
	}
	v = v.First(n)
	return &v
}

// PerLayer returns an integer for each of n layers. The key has an array, or
// one value for all layers. If the key is missing, all are def. A negative def
// makes the key required.
func (f *File) PerLayer(key string, n, def int) []int {
	if a := f.array(key, n); a != nil {
		out := make([]int, n)
		v, ok := a.Ints()
		if !ok {
			f.Fail(f.key(key), "an array of %v, want integers", a.Kind)
		}
		for i := range v {
			if v[i] < 0 || v[i] > math.MaxInt32 {
				f.Fail(f.key(key), "%d in layer %d", v[i], i)
			}
			out[i] = int(v[i])
		}
		if f.err == nil {
			return out
		}
		return slices.Repeat([]int{1}, n)
	}
	if def >= 0 {
		def = f.IntOr(key, def)
	} else {
		def = f.Int(key)
	}
	return slices.Repeat([]int{def}, n)
}

// Bools returns an optional array of truth values for n layers. Some files write
// them as integers.
func (f *File) Bools(key string, n int) ([]bool, bool) {
	a := f.array(key, n)
	if a == nil {
		return nil, false
	}
	if v, ok := a.Bools(); ok {
		return v, true
	}
	v := make([]bool, n)
	list, ok := a.Ints()
	if !ok {
		f.Fail(f.key(key), "an array of %v, want truth values", a.Kind)
		return v, true
	}
	for i, x := range list {
		v[i] = x != 0
	}
	return v, true
}

// Weight returns a required tensor of the given shape (GGUF order: row length
// first). A dimension of 0 accepts any size.
func (f *File) Weight(name string, shape ...int) *graph.Weight {
	w := f.Optional(name, shape...)
	if w == nil {
		if f.err == nil {
			f.err = fmt.Errorf("%w %s is missing", ErrTensor, name)
		}
		if f.trial {
			f.missing = append(f.missing, name)
		}
		// A harmless stand-in, so that an Opener need not check each call.
		s := slices.Clone(shape)
		for i := range s {
			s[i] = max(s[i], 1)
		}
		return &graph.Weight{Name: name, Type: dtype.F32, Shape: s}
	}
	return w
}

// Optional is Weight for a tensor that may be missing. It then returns nil.
func (f *File) Optional(name string, shape ...int) *graph.Weight {
	t, ok := f.gguf.Tensor(name)
	if !ok || f.err != nil && !f.trial {
		return nil
	}
	got := t.Shape
	for len(got) > len(shape) && got[len(got)-1] == 1 {
		got = got[:len(got)-1]
	}
	ok = len(got) <= len(shape)
	for i, want := range shape {
		d := 1
		if i < len(got) {
			d = got[i]
		}
		ok = ok && (want == 0 || d == want)
	}
	if !ok {
		f.err = fmt.Errorf("%w %s has shape %v, want %v", ErrTensor, name, t.Shape, shape)
		return nil
	}
	if !quant.Weights(t.Type) {
		f.err = fmt.Errorf("%w %s: type %v is not a weight type", ErrTensor, name, t.Type)
		return nil
	}
	f.used[name] = true
	full := slices.Clone(got)
	for len(full) < len(shape) {
		full = append(full, 1)
	}
	return &graph.Weight{Name: name, Type: t.Type, Shape: full, Data: t.Data}
}

// HasTensor reports whether the file holds the tensor.
func (f *File) HasTensor(name string) bool {
	_, ok := f.gguf.Tensor(name)
	return ok
}

// Rows returns the number of rows of a tensor, or 0 if it is missing.
func (f *File) Rows(name string) int {
	if t, ok := f.gguf.Tensor(name); ok && len(t.Shape) > 1 {
		return t.Shape[1]
	}
	return 0
}

// Values decodes a small tensor to float32. It returns nil if the tensor is
// missing.
func (f *File) Values(name string, n int) []float32 {
	w := f.Optional(name, n)
	if w == nil {
		return nil
	}
	out := make([]float32, n)
	if err := quant.Decode(w.Type, out, w.Data); err != nil && f.err == nil {
		f.err = fmt.Errorf("%w %s: %w", ErrTensor, name, err)
	}
	return out
}

// Matrix is Weight for a matrix, or one matrix per expert, with an optional
// scale. The scale is NAME.scale beside NAME.weight, with one value, or one
// value per expert.
func (f *File) Matrix(name string, shape ...int) *graph.Weight {
	w := f.Weight(name, shape...)
	w.Scale = f.scale(w)
	return w
}

// OptionalMatrix is Matrix for a tensor that may be missing. It then returns
// nil.
func (f *File) OptionalMatrix(name string, shape ...int) *graph.Weight {
	w := f.Optional(name, shape...)
	if w != nil {
		w.Scale = f.scale(w)
	}
	return w
}

func (f *File) scale(w *graph.Weight) *graph.Weight {
	name := strings.TrimSuffix(w.Name, ".weight") + ".scale"
	if t, ok := f.gguf.Tensor(name); ok && len(t.Shape) == 1 && t.Shape[0] == 1 {
		return f.Optional(name, 1)
	}
	return f.Optional(name, w.Mats())
}

// Config reads the hyper-parameters that every architecture has. It leaves out
// blocks that only predict further tokens.
func (f *File) Config() Config {
	c := Config{
		Arch: f.arch, Name: f.gguf.KV.Line("general.name"),
		Layers:  f.Layers(),
		Embd:    f.Int("embedding_length"),
		Context: f.Int("context_length"),
		Pooling: f.pooling(), Rank: f.IntOr("pooling_type", 1) == poolRank,
	}
	if n := f.IntOr("nextn_predict_layers", 0); n < c.Layers {
		c.Layers -= n
	} else {
		f.Fail(f.key("nextn_predict_layers"), "%d of %d blocks predict further tokens, which leaves none for the model", n, c.Layers)
	}
	f.trunk = c.Layers
	// A model whose rows see later rows cannot generate text.
	c.Embedding = !f.BoolOr("attention.causal", true) || archs[f.arch].Encoder
	c.Vocab = f.vocabulary()
	return c
}

// vocabulary returns the length of the file's token list, else vocab_size, else the
// number of rows of the embedding. 0 means unknown.
func (f *File) vocabulary() int {
	if v, ok := f.gguf.KV.Value("tokenizer.ggml.tokens"); ok && v.Len() > 0 {
		return v.Len()
	}
	if n := f.IntOr("vocab_size", 0); n > 0 {
		return n
	}
	if t, ok := f.gguf.Tensor("token_embd.weight"); ok && len(t.Shape) == 2 {
		return t.Shape[1]
	}
	return 0
}

// poolRank is the pooling_type of models that score a document for a query. The
// first row goes through a classifier.
const poolRank = 4

// pooling reads pooling_type. If it is missing or none, the mean is used.
func (f *File) pooling() graph.PoolKind {
	switch n := f.IntOr("pooling_type", 1); n {
	case 0, 1:
		return graph.PoolMean
	case 2:
		return graph.PoolFirst
	case 3:
		return graph.PoolLast
	case poolRank:
		if !archs[f.arch].Ranks {
			f.Fail(f.key("pooling_type"), "4 (rank) is supported for BERT models only")
		}
		return graph.PoolFirst
	default:
		f.Fail(f.key("pooling_type"), "%d; known: 0 none, 1 mean, 2 first, 3 last, 4 rank", n)
		return graph.PoolMean
	}
}

// TokenEmbd binds the embedding and the output matrix. If the file has no
// output matrix, the embedding is used.
func (f *File) TokenEmbd(c *Config) (embd, output *graph.Weight) {
	if t, ok := f.gguf.Tensor("token_embd.weight"); ok && len(t.Shape) == 2 && t.Shape[0] == c.Embd && t.Shape[1] != c.Vocab {
		f.Fail("tokenizer.ggml.tokens", "%d tokens, token_embd.weight has %d", c.Vocab, t.Shape[1])
	}
	embd = f.Weight("token_embd.weight", c.Embd, c.Vocab)
	output = f.OptionalMatrix("output.weight", c.Embd, c.Vocab)
	if output == nil {
		output = embd
	}
	return embd, output
}
