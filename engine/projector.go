package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/gguf"
	"godwit/engine/vision"
)

// ErrImage is wrapped by errors about pictures that cannot be used; the text gives
// the reason.
var ErrImage = vision.ErrImage

// ErrProjector is wrapped by errors about projector files.
var ErrProjector = vision.ErrProjector

// MaxImageBytes is the maximum size of a picture file.
const MaxImageBytes = vision.MaxBytes

// ImageLimits limit the tokens of a picture.
type ImageLimits = vision.Limits

// Picture is a picture prepared for a projector.
type Picture = vision.Picture

// Projector is an image tower that turns pictures into rows for a text model.
type Projector struct {
	Path string
	*vision.Tower
	file    *gguf.File
	dev     backend.Backend
	encoder *vision.Encoder
}

// OpenProjector opens a projector file (mmproj). Its tower runs on the CPU, with the
// threads of the options.
func OpenProjector(path string, o Options) (_ *Projector, err error) {
	f, err := openWith(path, gguf.Open)
	if err != nil {
		return nil, err
	}
	p := &Projector{Path: path, file: f}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.Tower, err = vision.Open(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b := o.backend()
	b.NoRepack = false // repacking pays, because the weights are few and each product covers all patches
	if p.dev, err = (cpu.Driver{}).Open(0, b); err != nil {
		return nil, err
	}
	p.encoder, err = vision.NewEncoder(p.Tower, p.dev)
	return p, err
}

// Encode returns the rows of all tiles of a picture, [tokens, Width]. progress
// receives the finished share and may be nil.
func (p *Projector) Encode(ctx context.Context, pic *Picture, progress func(share float64)) ([]float32, error) {
	var out []float32
	for i := range pic.Tiles {
		var part func(share float64)
		if progress != nil {
			part = func(share float64) { progress((float64(i) + share) / float64(len(pic.Tiles))) }
		}
		rows, err := p.encoder.Encode(ctx, &pic.Tiles[i], part)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
		if progress != nil {
			progress(float64(i+1) / float64(len(pic.Tiles)))
		}
	}
	return out, nil
}

// Close frees the tower.
func (p *Projector) Close() error {
	var err error
	if p.encoder != nil {
		err = p.encoder.Close()
	}
	if p.dev != nil {
		err = errors.Join(err, p.dev.Close())
	}
	return errors.Join(err, p.file.Close())
}

// NoProjector is the value of Options.MMProj that disables pictures, even with a
// projector beside the model.
const NoProjector = "off"

// FindProjector returns the projector file that belongs to a model: a file
// mmproj-*.gguf in the same folder whose rows have the model's width. Among
// several, it prefers the longest common prefix with the model's name, then the
// smallest file. It returns "" if no file fits.
func (m *Model) FindProjector() string {
	dir := filepath.Dir(m.Path)
	list, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	type found struct {
		path   string
		common int
		size   int64
	}
	var best *found
	for _, e := range list {
		name := strings.ToLower(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "mmproj") || filepath.Ext(name) != ".gguf" {
			continue
		}
		f := found{path: filepath.Join(dir, e.Name())}
		width, deep, size := projectorWidth(f.path)
		if width != m.Config().Embd || deep != 1+m.Config().Deep {
			continue
		}
		f.size = size
		f.common = inCommon(strings.TrimPrefix(strings.TrimPrefix(name, "mmproj"), "-"), strings.ToLower(filepath.Base(m.Path)))
		if best == nil || f.common > best.common || f.common == best.common && f.size < best.size {
			best = &f
		}
	}
	if best == nil {
		return ""
	}
	return best.path
}

// projectorWidth returns the width of the text model that a projector file fits,
// the number of parts in its rows, and its size. It returns 0 for other files.
func projectorWidth(path string) (width, parts int, size int64) {
	f, err := openWith(path, gguf.Open)
	if err != nil {
		return 0, 0, 0
	}
	defer f.Close()
	t, err := vision.Open(f)
	if err != nil {
		return 0, 0, 0
	}
	return t.Text, t.Width / t.Text, f.Size()
}

// inCommon returns the length of the longest common prefix.
func inCommon(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// project opens the projector in the options, or else one in the model's folder,
// and checks that it fits.
func (m *Model) project(o Options) error {
	if o.MMProj == NoProjector || m.Config().Embedding {
		return nil
	}
	path := o.MMProj
	if path == "" {
		// A projector that the user did not request must not prevent the model from
		// using the GPU.
		if onDevice(o) && o.Driver.Name() != (cpu.Driver{}).Name() {
			return nil
		}
		if path = m.FindProjector(); path == "" {
			return nil
		}
	}
	p, err := OpenProjector(path, o)
	if err != nil {
		return err
	}
	c := m.Config()
	if p.Text != c.Embd {
		return errors.Join(fmt.Errorf("%w: %s makes rows of %d values, but %s (%s) takes %d", ErrProjector, p.Path, p.Text, m.Path, c.Name, c.Embd), p.Close())
	}
	if parts := p.Width / p.Text; parts != 1+c.Deep {
		return errors.Join(fmt.Errorf("%w: %s makes rows of %d × %d values, but %s (%s) takes %d × %d", ErrProjector, p.Path, parts, p.Text, m.Path, c.Name, 1+c.Deep, c.Embd), p.Close())
	}
	m.projector = p
	return nil
}

// Sight describes the picture support of a file: of a model with its projector, or of a
// projector. The zero value stands for a model that reads only text.
type Sight struct {
	Projector string `json:"projector,omitempty"` // path of the projector in the model's folder
	Family    string `json:"family,omitempty"`    // family of the projector
	Width     int    `json:"width,omitempty"`     // width of the text model that the projector fits
	Dynamic   bool   `json:"dynamic,omitempty"`   // pictures keep their aspect ratio
	Tokens    int    `json:"tokens,omitempty"`    // maximum number of tokens in a tile
}

// SightOf returns the picture support of a file.
func SightOf(path string) (Sight, error) {
	f, err := OpenFile(path)
	if err != nil {
		return Sight{}, err
	}
	projector := vision.Is(f)
	if err := f.Close(); err != nil {
		return Sight{}, err
	}
	var s Sight
	if !projector {
		m, err := OpenModel(path)
		if err != nil {
			return s, err
		}
		s.Projector = m.FindProjector()
		if err := m.Close(); err != nil || s.Projector == "" {
			return s, err
		}
		path = s.Projector
	}
	if f, err = OpenFile(path); err != nil {
		return s, err
	}
	t, err := vision.Open(f)
	if err == nil {
		s.Family, s.Width, s.Dynamic, s.Tokens = t.Family, t.Text, t.Dynamic, t.LargestTile(ImageLimits{})
	}
	return s, errors.Join(err, f.Close())
}
