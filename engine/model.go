package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	_ "godwit/engine/arch" // registers the architectures
	"godwit/engine/chat"
	"godwit/engine/fault"
	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/model"
	"godwit/engine/tokenizer"
)

// Model is an opened file, with its metadata and with weights bound by name.
// Nothing is computed yet. Commands that only read metadata use a Model without an
// Engine.
type Model struct {
	Path  string
	File  *gguf.File
	model model.Model
	words func() (*tokenizer.Tokenizer, error)

	projector *Projector // nil: text only
	adapters  adapters
	override  string // chat template in place of the file's own; empty: none
	chat      func() (*chat.Template, error)
	templates templates // templates of requests

	encoded *model.Encoded // rows of the encoder's text; nil without an encoder text
}

// OpenFile opens a GGUF file with any content.
func OpenFile(path string) (*gguf.File, error) { return openWith(path, gguf.Open) }

func openWith(path string, open func(string) (*gguf.File, error)) (*gguf.File, error) {
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no model at %s: %w", path, err)
	}
	return f, err
}

// OpenModel opens a GGUF file and checks that its architecture, tensors and
// hyper-parameters are known.
func OpenModel(path string) (*Model, error) { return openModel(path, gguf.Open) }

func openModel(path string, open func(string) (*gguf.File, error)) (*Model, error) {
	f, err := openWith(path, open)
	if err != nil {
		return nil, err
	}
	var m model.Model
	err = fault.Guard(func() error { // binding reads small tensors
		var err error
		m, err = model.Open(f)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	words := sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
		t, err := tokenizer.New(f.KV)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return t, err
	})
	out := &Model{Path: path, File: f, model: m, words: words}
	out.chat = sync.OnceValues(out.newTemplate)
	return out, nil
}

// Tokenizer returns the model's vocabulary, which is read at first use.
func (m *Model) Tokenizer() (*tokenizer.Tokenizer, error) { return m.words() }

// Close unmaps the file.
func (m *Model) Close() error {
	err := m.adapters.close()
	if m.projector != nil {
		err = errors.Join(err, m.projector.Close())
	}
	return errors.Join(err, m.File.Close())
}

// Config returns the hyper-parameters that the architecture read.
func (m *Model) Config() *model.Config { return m.model.Config() }

// plan records the forward pass.
func (m *Model) plan(in model.Inputs) (*graph.Plan, error) {
	b := graph.NewBuilder()
	m.adapters.record(b)
	p, err := b.Finish(m.model.Forward(b, in))
	if err == nil && !in.Pool && !in.Hidden { // plans for pooling and hidden rows do not use the output matrix
		err = m.adapters.left(b)
	}
	return p, err
}

// Layers describes what each layer stores at a context of ctx tokens.
func (m *Model) Layers(ctx int) ([]layout.LayerInfo, error) {
	p, err := m.plan(model.Inputs{Context: ctx})
	if err != nil {
		return nil, err
	}
	return layerInfos(p, m.Config().Layers, signals(m.File, m.Config().Layers)), nil
}

// layout resolves the cache types of a recorded forward pass at a context. A side without
// a requested type uses the preset's type, or f16 without a preset.
func (m *Model) layout(g *graph.Plan, ctx int, want layout.Want, preset string, s layout.Settings) (layout.Layout, error) {
	l := layerInfos(g, m.Config().Layers, signals(m.File, m.Config().Layers))
	if preset != "" {
		p, err := layout.PresetWant(preset, l)
		if err != nil {
			return layout.Layout{}, err
		}
		if want.K == nil {
			want.K = p.K
		}
		if want.V == nil {
			want.V = p.V
		}
	}
	if s.Span == 0 {
		s.Span = layout.Span(ctx)
	}
	return layout.Resolve(want, l, s)
}

// Archs lists the architectures that can be run.
func Archs() []string { return model.Archs() }
