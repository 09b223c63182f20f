// Package model reads hyper-parameters from GGUF metadata and binds weights
// by tensor name. Architectures register themselves; Open picks one.
package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"godwit/engine/gguf"
	"godwit/engine/graph"
)

// ErrArch is wrapped when no architecture of that name is registered.
var ErrArch = errors.New("unsupported architecture")

// ErrTensor is wrapped by errors about missing or misshaped tensors.
var ErrTensor = errors.New("tensor")

// ErrParam is wrapped by errors about missing or impossible hyper-parameters.
var ErrParam = errors.New("hyper-parameter")

// Config is what the engine needs to know of any model.
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
	// Unused are the tensors of the file that the architecture has no use for.
	Unused []string
}

// Inputs are the choices that shape a forward pass.
type Inputs struct {
	Context int // tokens of the longest sequence; long-RoPE models choose factors by it
	// Pool replaces the logits by one row a sequence, by Config.Pooling.
	Pool bool
}

// Model is one loaded checkpoint. Forward records its pass; it reads no
// weight data and may be called again with other inputs.
type Model interface {
	Config() *Config
	Forward(g *graph.Builder, in Inputs) graph.Value
}

// Opener reads hyper-parameters and binds weights.
type Opener func(*File) (Model, error)

var archs = make(map[string]Opener)

// Register adds an architecture; engine/arch calls it from init.
func Register(name string, open Opener) {
	if _, dup := archs[name]; dup {
		panic("model: architecture registered twice: " + name)
	}
	archs[name] = open
}

// Archs lists the registered architectures in alphabetical order.
func Archs() []string { return slices.Sorted(maps.Keys(archs)) }

// Open returns the model in f.
func Open(f *gguf.File) (Model, error) {
	open, ok := archs[f.Arch()]
	switch {
	case f.Arch() == "":
		return nil, fmt.Errorf("%w: the file names none (general.architecture)", ErrArch)
	case !ok:
		return nil, fmt.Errorf("%w %.80q; supported: %s", ErrArch, f.Arch(), strings.Join(Archs(), ", "))
	}
	file := &File{gguf: f, arch: f.Arch(), used: map[string]bool{}}
	m, err := open(file)
	if err = errors.Join(err, file.err); err == nil {
		c := m.Config()
		c.Unused, err = file.left(c.Layers)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Arch(), err)
	}
	return m, nil
}
