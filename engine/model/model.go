// Package model reads hyper-parameters from GGUF metadata and binds weights
// by tensor name. Architectures register themselves; Open picks one.
package model

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/llm"
)

// ErrArch is wrapped when no architecture of that name is registered.
var ErrArch = errors.New("unsupported architecture")

// ErrTensor is wrapped by errors about missing or misshaped tensors.
var ErrTensor = errors.New("tensor")

// ErrParam is wrapped by errors about missing or impossible hyper-parameters.
var ErrParam = errors.New("hyper-parameter")

// Config describes a model to the engine, whatever its architecture.
type Config struct {
	Arch    string
	Name    string
	Layers  int
	Embd    int
	Vocab   int // width of the logits
	Context int // trained length
	// Embedding models give one pooled row a sequence instead of logits.
	Embedding bool
	Pooling   graph.PoolKind
	// Whole models predict masked tokens from both sides: their rows see the whole text, which
	// has to be one batch, so they do not generate token by token.
	Whole bool
	// Deep is the number of blocks that take a part of a picture's rows each, beside
	// the embedding.
	Deep int
	// Encoder models read another text with an encoder first; see TwoTexts.
	Encoder bool
	// Rank models give one score a sequence: how well a document answers a query.
	Rank bool
}

// WholeText says that the rows of the model see the whole text, which is one batch.
func (c *Config) WholeText() bool { return c.Embedding || c.Whole }

// CheckTokens rejects ids outside the vocabulary.
func (c *Config) CheckTokens(tokens []llm.Token) error {
	for i, t := range tokens {
		if t < 0 || int(t) >= c.Vocab {
			return fmt.Errorf("%d at position %d is not a token; the vocabulary has %d tokens", t, i, c.Vocab)
		}
	}
	return nil
}

// Inputs are the choices that shape a forward pass.
type Inputs struct {
	Context int // tokens of the longest sequence; long-RoPE models choose factors by it
	// Pool replaces the logits by one row a sequence, by Config.Pooling.
	Pool bool
	// Pictures lets the batch supply the embeddings of rows, and coordinates.
	Pictures bool
	// Hidden replaces the logits by the rows after the last norm.
	Hidden bool
	// Encoded is the encoder's result for the decoder of an encoder-decoder model; nil: no
	// text was encoded.
	Encoded *Encoded
}

// Encoded are the rows that an encoder made of a text.
type Encoded struct {
	Rows  []float32
	Count int
}

// TwoTexts is a Model whose decoder reads what an encoder makes of another text.
type TwoTexts interface {
	// Encode records the encoder's pass, whose result has a row for each output row.
	Encode(g *graph.Builder, in Inputs) graph.Value
}

// Model is one loaded checkpoint. Forward records its pass; it reads no
// weight data and may be called again with other inputs.
type Model interface {
	Config() *Config
	Forward(g *graph.Builder, in Inputs) graph.Value
}

// Opener reads hyper-parameters and binds weights.
type Opener func(*File) (Model, error)

// Arch is an architecture: how its files are opened, and which of their tensors
// no pass reads.
//
//	model.Register("qwen2", model.Arch{Open: openQwen2})
//
// A tensor that Open does not bind is an error, because answers without it would be
// silently wrong. A tensor that does not affect answers is listed in Unread, with a
// comment that explains it.
type Arch struct {
	Open Opener
	// Unread are patterns of such tensors, as in path.Match: "*" matches any part
	// of a name. The lists of all architectures begin with unreadByAll.
	Unread []string
	// Required are patterns of tensors that are optional in most architectures but always
	// present in this one. A test checks that Open insists on them.
	Required []string
	// Ahead says that files may end in blocks that predict further tokens, counted
	// by nextn_predict_layers. They are not read.
	Ahead bool
	// Encoder says that models only make embeddings, whatever attention.causal says.
	Encoder bool
	// Ranks says that models can score a document for a query, with pooling_type 4.
	Ranks bool
	// Chat is the format of conversations that its models were trained on, as
	// engine/chat names it, for files without a template; empty: many, or none.
	Chat string
}

// unreadByAll are tensors that files of any architecture may hold.
var unreadByAll = []string{
	"v.*", "mm.*", "a.*", // images and sound, in files that hold a projector too
	"*.input_scale",         // ranges of activations, for arithmetic in 4 and 8 bits
	"*.in_sum2", "*.counts", // an importance matrix
	"*.attn_rot_embd*", "*rotary_emb.inv_freq", // the frequencies that rope.freq_base gives
	"*position_ids", // 0, 1, 2 and so on
}

var archs = make(map[string]Arch)

// Register adds an architecture; engine/arch calls it from init. It panics on a
// name that is taken and on a pattern that path.Match does not understand.
func Register(name string, a Arch) {
	if _, dup := archs[name]; dup {
		panic("model: architecture registered twice: " + name)
	}
	for _, p := range slices.Concat(a.Unread, a.Required) {
		if _, err := path.Match(p, ""); err != nil {
			panic("model: " + name + ": pattern " + p + ": " + err.Error())
		}
	}
	archs[name] = a
}

// needs reports whether a tensor that was not bound is missing from the answers.
func (a *Arch) needs(name string) bool {
	match := func(p string) bool { ok, _ := path.Match(p, name); return ok }
	return !slices.ContainsFunc(unreadByAll, match) && !slices.ContainsFunc(a.Unread, match)
}

// Required reports whether an architecture declares that no file lacks a tensor.
func Required(arch, tensor string) bool {
	return slices.ContainsFunc(archs[arch].Required, func(p string) bool { ok, _ := path.Match(p, tensor); return ok })
}

// Encoder reports whether models of an architecture only make embeddings, whatever
// their file says.
func Encoder(name string) bool { return archs[name].Encoder }

// ChatFormat returns the format of conversations of an architecture; empty: unknown.
func ChatFormat(name string) string { return archs[name].Chat }

// Archs lists the registered architectures in alphabetical order.
func Archs() []string { return slices.Sorted(maps.Keys(archs)) }

// Open returns the model in f.
func Open(f *gguf.File) (Model, error) {
	a, ok := archs[f.Arch()]
	switch {
	case f.Arch() == "":
		return nil, fmt.Errorf("%w: the file names none (general.architecture)", ErrArch)
	case !ok:
		return nil, unknown(f)
	}
	file := NewFile(f)
	m, err := a.Open(file)
	if err = errors.Join(err, file.err); err == nil {
		err = file.left(&a)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Arch(), err)
	}
	return m, nil
}
