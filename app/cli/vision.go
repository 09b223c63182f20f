package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"godwit/engine"
)

type visionCmd struct {
	MMProj string   `arg:"" name:"mmproj" placeholder:"MMPROJ" help:"Path of a projector file (mmproj-*.gguf), or a name from 'godwit list'."`
	Images []string `arg:"" name:"image" placeholder:"IMAGE" help:"Pictures: PNG, JPEG, GIF, WebP, BMP or TIFF."`

	Pixels    bool `help:"Write the preprocessed pixels, planes of red, green and blue, instead of the rows."`
	JSON      bool `name:"json" help:"Print the tiles of each picture: shape, grid, tokens and positions."`
	MinTokens int  `name:"image-min-tokens" placeholder:"N" default:"0" help:"Minimum tokens per picture, for vision towers with dynamic size. 0: the model family's default."`
	MaxTokens int  `name:"image-max-tokens" placeholder:"N" default:"0" help:"Maximum tokens per picture, for vision towers with dynamic size. 0: the model family's default."`
	Threads   int  `short:"t" placeholder:"N" default:"0" help:"CPU threads. 0: one for each physical core."`
}

// shownPicture is a picture in the output of --json.
type shownPicture struct {
	Image  string      `json:"image"`
	Width  int         `json:"width"`
	Height int         `json:"height"`
	Tokens int         `json:"tokens"`
	Tiles  []shownTile `json:"tiles"`
}

type shownTile struct {
	Tile   any    `json:"tile"`   // "image", "overview" or [row, column]
	Shape  [3]int `json:"shape"`  // shape of the pixels
	Grid   [2]int `json:"grid"`   // rows and columns of tokens
	Tokens int    `json:"tokens"` // rows from the projector
	NPos   int    `json:"n_pos"`  // number of positions that the tile occupies
	// Positions of the tokens relative to the tile's first one: [time, row,
	// column] if the text model has coordinates, otherwise a number.
	Positions any `json:"positions"`
}

// Run writes the projector's rows for all tiles as raw float32 values.
func (c *visionCmd) Run(r *run) (err error) {
	if c.MinTokens < 0 || c.MaxTokens < 0 || c.Threads < 0 {
		return usage{fmt.Errorf("the numbers of tokens and threads must not be negative")}
	}
	path, err := r.find(c.MMProj)
	if err != nil {
		return err
	}
	p, err := engine.OpenProjector(path, engine.Options{Threads: c.Threads, Log: r.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var list []shownPicture
	for _, name := range c.Images {
		data, err := readImage(name)
		if err != nil {
			return err
		}
		pic, err := p.Prepare(data, engine.ImageLimits{Min: c.MinTokens, Max: c.MaxTokens})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if c.JSON {
			list = append(list, c.show(p, name, pic))
			continue
		}
		if err := c.write(r, p, name, pic); err != nil {
			return err
		}
	}
	if c.JSON {
		return r.json(list)
	}
	return nil
}

// readImage reads a picture file of limited size.
func readImage(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > engine.MaxImageBytes {
		return nil, fmt.Errorf("%s: %w: the file has %d bytes; the limit is %d", name, engine.ErrImage, info.Size(), engine.MaxImageBytes)
	}
	return os.ReadFile(name)
}

func (c *visionCmd) write(r *run, p *engine.Projector, name string, pic *engine.Picture) error {
	if c.Pixels {
		for _, t := range pic.Tiles {
			if err := r.floats(t.Pixels); err != nil {
				return err
			}
		}
		return nil
	}
	rows, err := p.Encode(r.ctx, pic, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.floats(rows)
}

func (c *visionCmd) show(p *engine.Projector, name string, pic *engine.Picture) shownPicture {
	out := shownPicture{Image: name, Width: pic.Width, Height: pic.Height}
	for i := range pic.Tiles {
		t := &pic.Tiles[i]
		s := shownTile{Tile: t.Kind, Shape: [3]int{3, t.Height, t.Width}, Grid: [2]int{t.GridH, t.GridW}, Tokens: t.Tokens, NPos: p.Positions(t)}
		if t.Kind == "tile" {
			s.Tile = [2]int{t.Row, t.Col}
		}
		if p.Grid {
			s.Positions = p.Coords(t)
		} else {
			list := make([]int, t.Tokens)
			for k := range list {
				list[k] = k
			}
			s.Positions = list
		}
		out.Tokens += t.Tokens
		out.Tiles = append(out.Tiles, s)
	}
	return out
}

// floats writes float32 values in little-endian order.
func (r *run) floats(list []float32) error {
	var b [4]byte
	for _, v := range list {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		if _, err := r.out.Write(b[:]); err != nil {
			return err
		}
	}
	return nil
}
