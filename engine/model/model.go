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

// ErrArch is wrapped if no architecture with the given name is registered.
var ErrArch = errors.New("unsupported architecture")

// ErrTensor is wrapped by errors about tensors that are missing or have a wrong
// shape.
var ErrTensor = errors.New("tensor")

// ErrParam is wrapped by errors about missing or impossible hyper-parameters.
var ErrParam = errors.New("hyper-parameter")

// Config describes a model of any architecture to the engine.
type Config struct {
	Arch    string
	Name    string
	Layers  int
	Embd    int
	Vocab   int // width of the logits
	Context int // context length in training, in tokens
	// Embedding models return one pooled row per sequence instead of logits.
	Embedding bool
	Pooling   graph.PoolKind
	// Whole models predict masked tokens from both sides. Their rows see the whole text, which
	// must be one batch, so they do not generate token by token.
	Whole bool
	// Deep is the number of blocks, from the first, after which another part of a
	// picture's rows is added to the activations. One more part is the picture's
	// embedding.
	Deep int
	// Encoder models first read another text with an encoder; see TwoTexts.
	Encoder bool
	// Rank models return one score per sequence, which says how well a document
	// answers a query.
	Rank bool
}

// WholeText reports whether the rows of the model see the whole text, which
// must be one batch.
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

// Inputs are the options of a forward pass.
type Inputs struct {
	Context int // tokens of the longest sequence, which determines the factors of long-RoPE models
	// Pool replaces the logits with one row per sequence, as Config.Pooling
	// defines.
	Pool bool
	// Pictures lets the batch supply the embeddings and coordinates of rows.
	Pictures bool
	// Hidden replaces the logits with the rows after the last norm.
	Hidden bool
	// Encoded is the encoder's result for the decoder of an encoder-decoder model. nil
	// means that no text was encoded.
	Encoded *Encoded
}

// Encoded holds the rows that an encoder computed from a text.
type Encoded struct {
	Rows  []float32
	Count int
}

// TwoTexts is a Model whose decoder reads the encoder's result for another
// text.
type TwoTexts interface {
	// Encode records the encoder's pass. The result has one row for each output row
	// of the batch.
	Encode(g *graph.Builder, in Inputs) graph.Value
}

// Model is one loaded checkpoint. Forward records its forward pass. It reads no
// weight data and may be called again with other inputs.
type Model interface {
	Config() *Config
	Forward(g *graph.Builder, in Inputs) graph.Value
}

// Opener reads hyper-parameters and binds weights.
type Opener func(*File) (Model, error)

// Arch is an architecture: how its files are opened, and which of their tensors no
// forward pass reads.
//
//	model.Register("qwen2", model.Arch{Open: openQwen2})
//
// A tensor that Open does not bind is an error, because answers without it would be
// silently wrong. A tensor that does not affect answers is listed in Unread, with a
// comment that explains it.
type Arch struct {
	Open Opener
	// Unread lists patterns of tensors that do not affect answers, as in
	// path.Match: "*" matches any part of a name. unreadByAll is added to the list
	// of every architecture.
	Unread []string
	// Required lists patterns of tensors that are optional in most architectures but
	// always present in this one. A test checks that Open requires them.
	Required []string
	// Ahead means that the last blocks of a file may only predict further tokens.
	// nextn_predict_layers counts these blocks, which are not read.
	Ahead bool
	// Encoder means that models only compute embeddings, whatever
	// attention.causal is.
	Encoder bool
	// Ranks means that models can score a document for a query, with
	// pooling_type 4.
	Ranks bool
	// Chat is the conversation format that the models were trained on, as named
	// in engine/chat. It applies to files without a template. It is empty if
	// there are several formats or none.
	Chat string
}

// unreadByAll lists tensors that files of any architecture may have.
var unreadByAll = []string{
	"v.*", "mm.*", "a.*", // images and sound, in files that also contain a projector
	"*.input_scale",         // ranges of activations, for arithmetic in 4 and 8 bits
	"*.in_sum2", "*.counts", // an importance matrix
	"*.attn_rot_embd*", "*rotary_emb.inv_freq", // the frequencies that follow from rope.freq_base
	"*position_ids", // 0, 1, 2 and so on
}

var archs = make(map[string]Arch)

// Register adds an architecture. engine/arch calls it from init. It panics if
// the name is taken or if path.Match rejects a pattern.
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

// needs reports whether the answers need a tensor that was not bound.
func (a *Arch) needs(name string) bool {
	match := func(p string) bool { ok, _ := path.Match(p, name); return ok }
	return !slices.ContainsFunc(unreadByAll, match) && !slices.ContainsFunc(a.Unread, match)
}

// Required reports whether an architecture declares that every file has a
// tensor.
func Required(arch, tensor string) bool {
	return slices.ContainsFunc(archs[arch].Required, func(p string) bool { ok, _ := path.Match(p, tensor); return ok })
}

// Encoder reports whether the models of an architecture only compute embeddings,
// whatever their file says.
func Encoder(name string) bool { return archs[name].Encoder }

// ChatFormat returns the conversation format of an architecture, or "" if
// unknown.
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
