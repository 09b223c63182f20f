package vision

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"godwit/engine/fault"
	"godwit/engine/gguf"
	"godwit/engine/model"
)

// ErrProjector is wrapped by errors about files that are not a projector that
// this package can run.
var ErrProjector = errors.New("projector")

// families are the projectors by the name in their files; each family's file adds
// its own.
var families = make(map[string]func(*Tower, *model.File))

func register(name string, bind func(*Tower, *model.File)) { families[name] = bind }

// Families lists the projector types that can be run.
func Families() []string { return slices.Sorted(maps.Keys(families)) }

// Tower is an image tower with its projection to a text model.
type Tower struct {
	Family string // projector type, as in the file
	Name   string // general.name
	Width  int    // width of a row: a multiple of Text
	Text   int    // width of the text model

	// Grid says that the tokens of a picture have coordinates, for text models
	// whose RoPE has sections.
	Grid bool
	// Whole says that the tokens of a tile see each other in both directions, in
	// text models that have such layers.
	Whole bool
	// Dynamic says that pictures keep their shape and Limits count.
	Dynamic bool

	vit
	file    *gguf.File
	texts   func(tiles []Tile) []string
	fit     func(p *rgb, l Limits) ([]part, error)
	mean    [3]float32
	std     [3]float32
	least   int // tokens of a picture where Limits say nothing
	most    int
	newline []float32 // row after each row of tokens except the last; nil for none
}

// Limits are a caller's bounds on the tokens of a picture; 0 leaves a bound to
// the family. Only towers of dynamic size have any.
type Limits struct{ Min, Max int }

// Is reports whether a file is a projector for pictures.
func Is(f *gguf.File) bool { return f.Arch() == "clip" }

// Open binds the tensors of a projector file. The Tower reads them in place, so
// the file stays open.
func Open(file *gguf.File) (*Tower, error) {
	if !Is(file) {
		return nil, fmt.Errorf("%w: the architecture is %.80q, not clip", ErrProjector, file.Arch())
	}
	t := &Tower{Name: file.KV.Line("general.name"), file: file}
	err := fault.Guard(func() error { return t.open(model.NewFile(file)) })
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tower) open(f *model.File) error {
	if !f.BoolOr("has_vision_encoder", true) {
		return fmt.Errorf("%w: the file has no image tower", ErrProjector)
	}
	t.Family = f.StringOr("projector_type", f.StringOr("vision.projector_type", ""))
	bind, ok := families[t.Family]
	if !ok {
		return fmt.Errorf("%w type %.80q is not supported; supported: %s", ErrProjector, t.Family, strings.Join(Families(), ", "))
	}
	copy(t.mean[:], f.Floats("vision.image_mean", 3, 0))
	copy(t.std[:], f.Floats("vision.image_std", 3, 1))
	for _, s := range t.std {
		if s == 0 {
			f.Fail("clip.vision.image_std", "0")
		}
	}
	t.texts = around("", "")
	t.vit.read(f)
	bind(t, f)
	if err := f.Err(); err != nil {
		return fmt.Errorf("%w (%s): %w", ErrProjector, t.Family, err)
	}
	var left []string
	for _, name := range f.Unbound() {
		if !strings.HasPrefix(name, "a.") && !strings.HasPrefix(name, "mm.a.") { // sound
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		const show = 8
		return fmt.Errorf("%w (%s): tensors that the tower does not read: %s", ErrProjector, t.Family, strings.Join(left[:min(len(left), show)], ", "))
	}
	return nil
}

// Texts returns what stands before, between and after the tiles of a picture,
// one more than tiles. Each is tokenised by itself, special tokens included.
func (t *Tower) Texts(tiles []Tile) []string { return t.texts(tiles) }

// around is the Texts of families with a marker before and after.
func around(before, after string) func([]Tile) []string {
	return func(tiles []Tile) []string {
		out := make([]string, len(tiles)+1)
		out[0], out[len(tiles)] = before, after
		return out
	}
}

// Bytes is the size of the file.
func (t *Tower) Bytes() int64 { return t.file.Size() }
