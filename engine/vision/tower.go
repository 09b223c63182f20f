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

// ErrProjector is wrapped by errors about files that are not a supported projector.
var ErrProjector = errors.New("projector")

// families maps projector types, as named in files, to their binders. The file
// of each family adds its binders.
var families = make(map[string]func(*Tower, *model.File))

func register(name string, bind func(*Tower, *model.File)) { families[name] = bind }

// Families lists the supported projector types.
func Families() []string { return slices.Sorted(maps.Keys(families)) }

// Tower is an image tower with its projection into a text model.
type Tower struct {
	Family string // projector type, as named in the file
	Name   string // general.name
	Width  int    // width of a row, a multiple of Text
	Text   int    // width of the text model

	// Grid is set if a picture's tokens have coordinates, for text models with
	// sectioned RoPE.
	Grid bool
	// Whole is set if the tokens of a tile attend to each other in both directions,
	// for text models with such layers.
	Whole bool
	// Dynamic is set if pictures keep their aspect ratio, so that Limits apply.
	Dynamic bool

	vit
	file    *gguf.File
	texts   func(tiles []Tile) []string
	fit     func(p *rgb, l Limits) ([]part, error)
	mean    [3]float32
	std     [3]float32
	least   int // minimum number of tokens if Limits do not set one
	most    int
	newline []float32 // embedding inserted after each line of the grid except the last; nil without one
}

// Limits are the caller's bounds on the tokens of a picture. 0 selects the family's
// bound. Limits apply only to towers of dynamic size.
type Limits struct{ Min, Max int }

// Is reports whether a file is a projector for pictures.
func Is(f *gguf.File) bool { return f.Arch() == "clip" }

// Open binds the tensors of a projector file. The Tower reads them in place, so the
// file must stay open.
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
		if !strings.HasPrefix(name, "a.") && !strings.HasPrefix(name, "mm.a.") { // audio tensors
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		const show = 8
		return fmt.Errorf("%w (%s): tensors that the tower does not read: %s", ErrProjector, t.Family, strings.Join(left[:min(len(left), show)], ", "))
	}
	return nil
}

// Texts returns the texts before, between and after the tiles of a picture,
// which is one more text than there are tiles. Each text is tokenised
// separately, special tokens included.
func (t *Tower) Texts(tiles []Tile) []string { return t.texts(tiles) }

// around returns the Texts function of families with one marker before and one
// after the picture.
func around(before, after string) func([]Tile) []string {
	return func(tiles []Tile) []string {
		out := make([]string, len(tiles)+1)
		out[0], out[len(tiles)] = before, after
		return out
	}
}

// Bytes returns the size of the file.
func (t *Tower) Bytes() int64 { return t.file.Size() }
