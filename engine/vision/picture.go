package vision

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"godwit/engine/llm"
)

// Picture is a picture prepared for the tower.
type Picture struct {
	Width, Height int // size of the upright picture before resizing
	Tiles         []Tile
	// Hash identifies the pixels of all tiles, and thereby the rows that a tower
	// computes from them.
	Hash [32]byte
}

// Tile is one input of the tower, which is the whole picture or a part of it.
type Tile struct {
	Kind          string // "image", "overview" or "tile"
	Row, Col      int    // position of a tile in the grid
	Width, Height int
	Pixels        []float32 // [3, Height, Width], normalised
	GridW, GridH  int       // number of tokens across and down
	Tokens        int       // number of embeddings: one per token of the grid, plus one between two lines of the grid if the family has line breaks
}

// Positions returns the number of text positions that the tile takes: its tokens,
// or the longer side of the grid if tokens have coordinates.
func (t *Tower) Positions(tile *Tile) int {
	if t.Grid {
		return max(tile.GridW, tile.GridH)
	}
	return tile.Tokens
}

// Coords returns the coordinates of the tile's tokens: time, row and column.
func (t *Tower) Coords(tile *Tile) []llm.Coord {
	out := make([]llm.Coord, 0, tile.Tokens)
	for i := range tile.GridW * tile.GridH {
		out = append(out, llm.Coord{0, int32(i / tile.GridW), int32(i % tile.GridW)})
	}
	return out
}

// part is a tile before normalisation.
type part struct {
	kind     string
	row, col int
	*rgb
}

// Limits on what a file can produce from a picture.
const (
	maxTiles  = 1024
	maxTokens = 1 << 16 // maximum number of tokens of a tile
)

// Prepare decodes a picture and cuts it into normalised tiles.
func (t *Tower) Prepare(data []byte, l Limits) (*Picture, error) {
	img, err := decode(data)
	if err != nil {
		return nil, err
	}
	if l.Min, l.Max, err = t.limits(l); err != nil {
		return nil, err
	}
	parts, err := t.fit(img, l)
	if err != nil {
		return nil, err
	}
	out := &Picture{Width: img.w, Height: img.h}
	sum := sha256.New()
	for _, p := range parts {
		tile := Tile{Kind: p.kind, Row: p.row, Col: p.col, Width: p.w, Height: p.h, Pixels: t.normalise(p.rgb)}
		side := t.patch * t.merge
		tile.GridW, tile.GridH = p.w/side, p.h/side
		tile.Tokens = tile.GridW * tile.GridH
		if t.newline != nil {
			tile.Tokens += tile.GridH - 1
		}
		if tile.Tokens > maxTokens {
			return nil, fmt.Errorf("%w: a tile of %d tokens, at most %d", ErrImage, tile.Tokens, maxTokens)
		}
		_ = binary.Write(sum, binary.LittleEndian, [2]int32{int32(p.w), int32(p.h)}) // writing to a hash cannot fail
		sum.Write(p.pix)
		out.Tiles = append(out.Tiles, tile)
	}
	sum.Sum(out.Hash[:0])
	return out, nil
}

// limits replaces zero limits by the family's own.
func (t *Tower) limits(l Limits) (least, most int, err error) {
	least, most = t.least, t.most
	if l.Min > 0 {
		least = l.Min
	}
	if l.Max > 0 {
		most = l.Max
	}
	if l.Min <= 0 {
		least = min(least, most)
	}
	if l.Max <= 0 {
		most = max(least, most)
	}
	if least > most || most > maxTokens {
		return 0, 0, fmt.Errorf("%w: %d to %d tokens per picture; at most %d are possible", ErrImage, least, most, maxTokens)
	}
	return least, most, nil
}

// LargestTile returns the largest number of tokens in a tile within the limits.
func (t *Tower) LargestTile(l Limits) int {
	if !t.Dynamic {
		n := t.size / (t.patch * t.merge)
		return n * n
	}
	_, most, err := t.limits(l)
	if err != nil {
		return 0
	}
	return most
}

// normalise converts bytes to normalised planes of float32.
func (t *Tower) normalise(p *rgb) []float32 {
	n := p.w * p.h
	out := make([]float32, 3*n)
	for c := range 3 {
		var table [256]float32
		for v := range table {
			table[v] = (float32(v)/255 - t.mean[c]) / t.std[c]
		}
		plane := out[c*n : (c+1)*n]
		for i := range plane {
			plane[i] = table[p.pix[3*i+c]]
		}
	}
	return out
}

// square resizes pictures for towers with a fixed size.
func (t *Tower) square(f filter, fill [3]byte) func(*rgb, Limits) ([]part, error) {
	return func(p *rgb, _ Limits) ([]part, error) {
		q, err := p.letterbox(t.size, t.size, f, fill)
		return []part{{kind: "image", rgb: q}}, err
	}
}

// dynamic resizes pictures for towers that keep their aspect ratio.
func (t *Tower) dynamic(least, most int) func(*rgb, Limits) ([]part, error) {
	t.Dynamic, t.least, t.most = true, least, most
	return func(p *rgb, l Limits) ([]part, error) {
		side := t.patch * t.merge
		w, h := aligned(p.w, p.h, side, l.Min*side*side, l.Max*side*side)
		if w/side*(h/side) > maxTokens {
			return nil, fmt.Errorf("%w: a picture of %d × %d pixels is too narrow", ErrImage, p.w, p.h)
		}
		q, err := p.letterbox(w, h, bicubic, [3]byte{})
		return []part{{kind: "image", rgb: q}}, err
	}
}

// tiles cuts a picture row by row.
func (t *Tower) tiles(p *rgb) ([]part, error) {
	cols, rows := p.w/t.size, p.h/t.size
	if cols*rows > maxTiles {
		return nil, fmt.Errorf("%w: %d tiles, at most %d", ErrImage, cols*rows, maxTiles)
	}
	var out []part
	for r := range rows {
		for c := range cols {
			out = append(out, part{"tile", r, c, p.cut(c*t.size, r*t.size, t.size, t.size)})
		}
	}
	return out, nil
}

// finite32 reports whether all values are finite.
func finite32(x []float32) bool {
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}
