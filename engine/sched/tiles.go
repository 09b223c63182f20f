package sched

import (
	"fmt"

	"godwit/engine/llm"
)

// Tile is a run of rows of one picture in a prompt.
type Tile struct {
	At    int       // position of the first row
	Count int       // number of rows
	Rows  []float32 // embeddings, all of the same width
	// Coords are the coordinates of the rows relative to the tile. nil means consecutive
	// coordinates, as in text.
	Coords []llm.Coord
	// Span is the distance by which the tile shifts later coordinates; without Coords it is
	// Count.
	Span int
	// Whole means that every row sees the whole tile, so the tile is read in
	// one batch.
	Whole bool
}

// end returns the position after a tile.
func (t *Tile) end() int { return t.At + t.Count }

// checkTiles rejects tiles that do not fit their prompt or a batch.
func (s *Sched) checkTiles(j *Job) error {
	last := 0
	for i := range j.Tiles {
		t := &j.Tiles[i]
		if t.Count < 1 || t.At < last || t.end() > len(j.Prompt) || len(t.Rows) == 0 || len(t.Rows)%t.Count != 0 ||
			t.Coords != nil && len(t.Coords) != t.Count {
			return fmt.Errorf("sched: a tile of %d rows at %d of %d tokens", t.Count, t.At, len(j.Prompt))
		}
		if t.Whole && t.Count > s.o.Rows {
			return fmt.Errorf("a picture of %d tokens is read in one step, which has %d rows (--ubatch-size)", t.Count, s.o.Rows)
		}
		last = t.end()
	}
	return nil
}

// tile returns the tile at a position, or nil.
func (t *task) tile(pos int) *Tile {
	for i := range t.Tiles {
		if x := &t.Tiles[i]; pos >= x.At && pos < x.end() {
			return x
		}
	}
	return nil
}

// coord returns the coordinates of a position.
func (t *task) coord(pos int) llm.Coord {
	moved := 0 // shift by earlier tiles
	for i := range t.Tiles {
		x := &t.Tiles[i]
		if pos < x.At {
			break
		}
		if pos < x.end() {
			if x.Coords == nil {
				break
			}
			c, base := x.Coords[pos-x.At], int32(x.At-moved)
			return llm.Coord{base + c[0], base + c[1], base + c[2]}
		}
		if x.Coords != nil {
			moved += x.Count - x.Span
		}
	}
	p := int32(pos - moved)
	return llm.Coord{p, p, p}
}

// undivided changes a chunk of n rows so that it does not divide a tile that must be read in one
// batch. A tile that does not fit in this step waits for the next. A stored prefix may end within a
// tile, because its cells were computed from the whole tile.
func (s *Sched) undivided(i, n int) int {
	t, have := s.slots[i].task, len(s.slots[i].tokens)
	for k := range t.Tiles {
		x := &t.Tiles[k]
		if !x.Whole || x.end() <= have || x.At >= have+n || x.end() <= have+n {
			continue
		}
		if x.At > have {
			return x.At - have
		}
		if n = x.end() - have; n > s.room.rows {
			return 0
		}
		return n
	}
	return n
}

// pictures fills in the embeddings and coordinates of picture rows, if the batch has any.
func (s *Sched) pictures(b *llm.Batch) {
	any := false
	for _, sp := range b.Spans {
		any = any || len(s.slots[sp.Seq].task.Tiles) > 0
	}
	if !any {
		return
	}
	n := len(b.Tokens)
	s.coords, s.embds, s.sees = resized(s.coords, n), resized(s.embds, n), resized(s.sees, n)
	b.Coords, b.Embds, b.Sees = s.coords, s.embds, s.sees
	for _, sp := range b.Spans {
		t := s.slots[sp.Seq].task
		for r := sp.First; r < sp.First+sp.Rows; r++ {
			pos := int(b.Pos[r])
			b.Coords[r], b.Embds[r], b.Sees[r] = t.coord(pos), nil, 0
			x := t.tile(pos)
			if x == nil {
				continue
			}
			w := len(x.Rows) / x.Count
			b.Embds[r] = x.Rows[(pos-x.At)*w : (pos-x.At+1)*w]
			if x.Whole {
				b.Sees[r] = int32(x.end())
			}
		}
	}
}

func resized[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	return list[:n]
}
