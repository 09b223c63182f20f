package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/quant"
)

// ErrAdapter is wrapped by errors about adapters that do not fit the model.
var ErrAdapter = errors.New("adapter")

// LoRA is a low-rank adapter in a GGUF file, applied when a model is loaded.
type LoRA struct {
	Path  string
	Scale float32 // factor of the adapter; 0 means 1
}

// adapters are the adapters of an opened model.
type adapters struct {
	files   []*gguf.File
	list    []namedAdapter
	ignored []string // tensors that would replace norms, which is not supported
	digest  []byte   // digest of files and scales; nil without adapters
}

type namedAdapter struct {
	weight string
	graph.Adapter
}

// adapt reads adapters and checks them against the model.
func (m *Model) adapt(list []LoRA) error {
	for _, l := range list {
		f, err := OpenFile(l.Path)
		if err != nil {
			return err
		}
		m.adapters.files = append(m.adapters.files, f)
		if l.Scale == 0 {
			l.Scale = 1
		}
		if err := m.addAdapter(f, l.Scale); err != nil {
			return fmt.Errorf("%s: %w", l.Path, err)
		}
		if err := f.Gone(); err != nil {
			return err
		}
		id := f.Identity()
		m.adapters.digest = fmt.Appendf(append(m.adapters.digest, id[:]...), "%g", l.Scale)
	}
	return nil
}

// addAdapter adds the pairs of one file.
func (m *Model) addAdapter(f *gguf.File, scale float32) error {
	alpha, err := checkAdapter(f, m.File.Arch())
	if err != nil {
		return err
	}
	pairs := make(map[string]*namedAdapter)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		base, side, ok := strings.Cut(t.Name, ".lora_")
		switch {
		case strings.HasSuffix(t.Name, "_norm.weight"):
			m.adapters.ignored = append(m.adapters.ignored, t.Name)
			continue
		case !ok || side != "a" && side != "b":
			return fmt.Errorf("%w: tensor %q is neither lora_a nor lora_b", ErrAdapter, t.Name)
		case !quant.Weights(t.Type):
			return fmt.Errorf("%w: tensor %q: type %v is not a weight type", ErrAdapter, t.Name, t.Type)
		}
		p := pairs[base]
		if p == nil {
			p = &namedAdapter{weight: base}
			pairs[base] = p
		}
		w := &graph.Weight{Name: t.Name, Type: t.Type, Shape: t.Shape, Data: t.Data}
		if side == "a" {
			p.A = w
		} else {
			p.B = w
		}
	}
	if len(pairs) == 0 {
		return fmt.Errorf("%w: no tensor is lora_a or lora_b", ErrAdapter)
	}
	for _, p := range pairs {
		if err := m.checkPair(p); err != nil {
			return err
		}
		p.Scale = scale
		if alpha != 0 {
			p.Scale *= alpha / float32(p.B.Cols())
		}
		m.adapters.list = append(m.adapters.list, *p)
	}
	slices.SortStableFunc(m.adapters.list, func(a, b namedAdapter) int { return strings.Compare(a.weight, b.weight) })
	return nil
}

// maxAlpha is far above the values of known adapters, which are at most a few
// hundred.
const maxAlpha = 1 << 20

// checkAdapter checks the metadata of an adapter file and returns alpha.
func checkAdapter(f *gguf.File, arch string) (float32, error) {
	kind, _ := f.KV.String("general.type")
	method, _ := f.KV.String("adapter.type")
	switch {
	case kind != "adapter":
		return 0, fmt.Errorf("%w: general.type is %.80q, want adapter", ErrAdapter, kind)
	case method != "lora":
		return 0, fmt.Errorf("%w: adapter.type is %.80q, want lora", ErrAdapter, method)
	case f.Arch() != arch:
		return 0, fmt.Errorf("%w: it is for the architecture %.80q, but the model is %q", ErrAdapter, f.Arch(), arch)
	case f.KV.Has("adapter.alora.invocation_tokens"):
		return 0, fmt.Errorf("%w: it applies only to some tokens, which is not supported", ErrAdapter)
	}
	alpha, ok := f.KV.Float("adapter.lora.alpha")
	if !ok && f.KV.Has("adapter.lora.alpha") || !(math.Abs(alpha) <= maxAlpha) {
		return 0, fmt.Errorf("%w: adapter.lora.alpha is %g, want a number of at most %d", ErrAdapter, alpha, maxAlpha)
	}
	return float32(alpha), nil
}

// checkPair compares the shapes of a pair with the weight that it changes.
func (m *Model) checkPair(p *namedAdapter) error {
	if p.A == nil || p.B == nil {
		return fmt.Errorf("%w: %s has only one half of a pair", ErrAdapter, p.weight)
	}
	t, ok := m.File.Tensor(p.weight)
	if !ok {
		return fmt.Errorf("%w: the model has no tensor %s", ErrAdapter, p.weight)
	}
	w := &graph.Weight{Shape: t.Shape}
	fits := p.A.Cols() == w.Cols() && p.B.Rows() == w.Rows() && p.A.Rows() == p.B.Cols()
	if p.weight == "token_embd.weight" {
		fits = p.A.Rows() == w.Rows() && p.B.Rows() == w.Cols() && p.A.Cols() == p.B.Cols()
	}
	if !fits || p.A.Mats() != w.Mats() || p.B.Mats() != w.Mats() {
		return fmt.Errorf("%w: %s has shape %v, which the shapes %v and %v of its pair do not fit", ErrAdapter, p.weight, t.Shape, p.A.Shape, p.B.Shape)
	}
	return nil
}

// record adds the adapters to a builder.
func (a *adapters) record(b *graph.Builder) {
	for _, p := range a.list {
		b.Adapt(p.weight, p.Adapter)
	}
}

// left returns an error if an adapter changes a weight that no matrix product uses.
func (a *adapters) left(b *graph.Builder) error {
	if names := b.Unadapted(); len(names) > 0 {
		return fmt.Errorf("%w: %s cannot be adapted in this architecture", ErrAdapter, strings.Join(names, ", "))
	}
	return nil
}

// identity returns an id for the model together with its adapters, for saved
// sessions.
func (m *Model) identity() [32]byte {
	id := m.File.Identity()
	if m.adapters.digest == nil {
		return id
	}
	return sha256.Sum256(append(id[:], m.adapters.digest...))
}

func (a *adapters) close() error {
	var errs []error
	for _, f := range a.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
