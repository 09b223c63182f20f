package kv

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"godwit/engine/llm"
)

// visit is called for each row, or for each state where row is -1, in the
// order of the file; buf has the row's size.
type visit func(buf []byte, layer int, side Side, cell int32) error

// walk visits everything that is saved of a sequence: by layer the rows of K,
// then those of V, in position order, and its recurrent state.
func (c *Cache) walk(seq llm.Seq, from []int, row, state visit) error {
	var buf []byte
	sized := func(n int) []byte {
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		return buf[:n]
	}
	n := c.seqs[seq].len
	for i := range c.layout.Layers {
		y := &c.layout.Layers[i]
		for _, s := range []Side{K, V} {
			size := y.Side(s).RowBytes
			if !y.Owns() || size == 0 {
				continue
			}
			for pos := from[y.Group]; pos < n; pos++ {
				if err := row(sized(size), i, s, c.Cell(y.Group, seq, pos)); err != nil {
					return fmt.Errorf("layer %d %v position %d: %w", y.Layer, s, pos, err)
				}
			}
		}
		if y.StateBytes > 0 && n > 0 {
			if err := state(sized(int(y.StateBytes)), i, K, -1); err != nil {
				return fmt.Errorf("layer %d state: %w", y.Layer, err)
			}
		}
	}
	return nil
}

// stateRows is rows as the memory of recurrent states, which it has to be in
// models that have any.
func (c *Cache) stateRows(rows Rows) (StateRows, error) {
	s, ok := rows.(StateRows)
	if !ok && c.states.on() {
		return nil, errors.New("kv: the memory hands out no recurrent states")
	}
	return s, nil
}

// Save writes a sequence: a header that says what the rows are, the rows of
// every layer in the format's own bytes, the recurrent state, and a SHA-256 of
// all of it. It streams: it holds one row at a time. In models with recurrent
// state rows has to be a StateRows too.
func (c *Cache) Save(w io.Writer, seq llm.Seq, rows Rows) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	states, err := c.stateRows(rows)
	if err != nil {
		return err
	}
	from := make([]int, len(c.pools))
	for g := range from {
		from[g] = max(s.first[g], s.visible(c.pools[g].window)) * PageCells
	}
	h := c.header(s.len, from)
	if err := c.measure(h, rows); err != nil {
		return err
	}
	head, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("kv: save: %w", err)
	}
	buffered := bufio.NewWriter(w)
	sum := sha256.New()
	out := io.MultiWriter(buffered, sum)
	start := append([]byte(sessionMagic), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(start[8:], sessionVersion)
	binary.LittleEndian.PutUint32(start[12:], uint32(len(head)))
	write := func(b []byte) error { _, err := out.Write(b); return err }
	err = errors.Join(write(start), write(head))
	if err == nil {
		err = c.walk(seq, from, func(buf []byte, layer int, side Side, cell int32) error {
			return errors.Join(rows.ReadRow(buf, layer, side, Packed, cell), write(buf))
		}, func(buf []byte, layer int, _ Side, _ int32) error {
			return errors.Join(states.ReadState(buf, layer, c.State(seq)), write(buf))
		})
	}
	if err == nil {
		_, err = buffered.Write(sum.Sum(nil))
	}
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return fmt.Errorf("kv: save sequence %d: %w", seq, err)
	}
	return nil
}

// Load fills a sequence, which is emptied first, from what Save wrote, and
// reads no further. What does not fit this cache, or is damaged, is ErrSession
// with the reason; ErrFull says that the cells are not there. After an error
// the sequence is empty.
func (c *Cache) Load(r io.Reader, seq llm.Seq, rows Rows) error {
	if _, err := c.seq(seq); err != nil {
		return err
	}
	c.Drop(seq)
	if err := c.load(r, seq, rows); err != nil {
		c.Drop(seq)
		return fmt.Errorf("kv: load sequence %d: %w", seq, err)
	}
	return c.Checkpoint(seq)
}

func (c *Cache) load(r io.Reader, seq llm.Seq, rows Rows) error {
	states, err := c.stateRows(rows)
	if err != nil {
		return err
	}
	own, err := json.Marshal(c.header(0, make([]int, len(c.pools))))
	if err != nil {
		return err
	}
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	h, err := readHeader(in, uint32(4*len(own)+1<<10))
	if err != nil {
		return err
	}
	from, err := c.accept(h, rows)
	if err != nil {
		return err
	}
	if err := c.place(seq, h.Len, from); err != nil {
		return err
	}
	in = io.TeeReader(bufio.NewReader(io.LimitReader(r, c.saved(h.Len, from))), sum)
	err = c.walk(seq, from, func(buf []byte, layer int, side Side, cell int32) error {
		if err := readFull(in, buf); err != nil {
			return err
		}
		return rows.WriteRow(layer, side, Packed, cell, buf)
	}, func(buf []byte, layer int, _ Side, _ int32) error {
		if err := readFull(in, buf); err != nil {
			return err
		}
		return states.WriteState(layer, c.State(seq), buf)
	})
	if err != nil {
		return err
	}
	var trailer [sha256.Size]byte
	if err := readFull(r, trailer[:]); err != nil {
		return err
	}
	if !bytes.Equal(trailer[:], sum.Sum(nil)) {
		return fmt.Errorf("%w: its checksum does not match, it is damaged", ErrSession)
	}
	return nil
}

// saved is the size of the rows and states of a sequence in a file.
func (c *Cache) saved(n int, from []int) int64 {
	var size int64
	for i := range c.layout.Layers {
		y := &c.layout.Layers[i]
		if y.Owns() {
			size = addSat(size, mulSat(int64(y.K.RowBytes+y.V.RowBytes), n-from[y.Group]))
		}
		if n > 0 {
			size = addSat(size, y.StateBytes)
		}
	}
	return size
}

// readFull fills buf; an early end is ErrSession.
func readFull(r io.Reader, buf []byte) error {
	if n, err := io.ReadFull(r, buf); err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it ends early, %d of %d bytes", ErrSession, n, len(buf))
	} else if err != nil {
		return err
	}
	return nil
}

// readHeader reads up to the first row; a header is at most most bytes.
func readHeader(r io.Reader, most uint32) (*sessionHeader, error) {
	var start [len(sessionMagic) + 8]byte
	if err := readFull(r, start[:]); err != nil {
		return nil, err
	}
	if string(start[:len(sessionMagic)]) != sessionMagic {
		return nil, fmt.Errorf("%w: it is no saved sequence", ErrSession)
	}
	if v := binary.LittleEndian.Uint32(start[8:]); v != sessionVersion {
		return nil, fmt.Errorf("%w: format version %d, known is %d", ErrSession, v, sessionVersion)
	}
	n := binary.LittleEndian.Uint32(start[12:])
	if n > most {
		return nil, fmt.Errorf("%w: a header of %d bytes, at most %d are possible here", ErrSession, n, most)
	}
	head, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return nil, err
	}
	if len(head) < int(n) {
		return nil, fmt.Errorf("%w: it ends early, in its header", ErrSession)
	}
	h := new(sessionHeader)
	if err := json.Unmarshal(head, h); err != nil {
		return nil, fmt.Errorf("%w: its header does not parse: %w", ErrSession, err)
	}
	return h, nil
}

// accept checks a saved header against this cache and returns the position
// from which each group has rows.
func (c *Cache) accept(h *sessionHeader, rows Rows) ([]int, error) {
	from := make([]int, len(c.pools))
	own := c.header(h.Len, from)
	if err := c.measure(own, rows); err != nil {
		return nil, err
	}
	if why := h.differs(own); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrSession, why)
	}
	if h.Len < 0 {
		return nil, fmt.Errorf("%w: a length of %d", ErrSession, h.Len)
	}
	s := sequence{len: h.Len}
	for g := range from {
		from[g] = h.Groups[g].From
		if most := s.visible(c.pools[g].window) * PageCells; from[g] < 0 || from[g]%PageCells != 0 || from[g] > most {
			return nil, fmt.Errorf("%w: rows from position %d, at most %d are possible", ErrSession, from[g], most)
		}
	}
	return from, nil
}

// place makes an empty sequence n positions long, without cells before from.
func (c *Cache) place(seq llm.Seq, n int, from []int) error {
	s := &c.seqs[seq]
	pages := n / PageCells
	if n%PageCells != 0 {
		pages++
	}
	c.touch(s)
	for g := range c.pools {
		p, first := &c.pools[g], from[g]/PageCells
		if need := pages - first; pages > cap(s.tables[g]) || need > len(p.free) && !c.reclaim(g, need) {
			return fmt.Errorf("%w: sequence %d wants %d cells, %d of %d free",
				ErrFull, seq, n, len(p.free)*PageCells, len(p.refs)*PageCells)
		}
		for len(s.tables[g]) < first {
			s.tables[g] = append(s.tables[g], -1)
		}
		for len(s.tables[g]) < pages {
			s.tables[g] = append(s.tables[g], p.take())
		}
		s.first[g] = first
	}
	s.len = n
	return nil
}
