package pages

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/internal/sat"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// visit is called for each row in the order of the file. len(buf) is the row's
// size.
type visit func(buf []byte, layer int, side kv.Side, tier layout.Tier, cell int32) error

// visitState is called for each recurrent state.
type visitState func(buf []byte, layer int, slot int32) error

// walk visits all saved rows of a sequence. By layer, it visits the packed, the
// exact and the pinned rows of K, each in position order, the self-calibration of
// K, and then the same of V. Finally it visits the recurrent states in slots: the
// live one and the checkpoints.
func (c *Cache) walk(seq llm.Seq, groups []sessionGroup, slots []int32, row visit, state visitState) error {
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
		for _, s := range []kv.Side{kv.K, kv.V} {
			if !y.Owns() {
				continue
			}
			err := c.positions(seq, y, s, &groups[y.Group], func(tier layout.Tier, size, pos int, cell int32) error {
				if err := row(sized(size), i, s, tier, cell); err != nil {
					return fmt.Errorf("layer %d %v position %d: %w", y.Layer, s, pos, err)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if y.StateBytes == 0 || n == 0 {
			continue
		}
		for k, slot := range slots {
			if err := state(sized(int(y.StateBytes)), i, slot); err != nil {
				return fmt.Errorf("layer %d state %d of %d: %w", y.Layer, k, len(slots), err)
			}
		}
	}
	return nil
}

// positions calls row for each row of one side of a layer.
func (c *Cache) positions(seq llm.Seq, y *layout.Layer, s kv.Side, h *sessionGroup, row func(tier layout.Tier, size, pos int, cell int32) error) error {
	x, n := y.Side(s), c.seqs[seq].len
	end := n
	if x.PackedByPage() {
		end = h.packed(n)
	}
	for pos := h.From; pos < end && x.RowBytes > 0; pos++ {
		if err := row(layout.Packed, x.RowBytes, pos, c.Cell(y.Group, seq, pos)); err != nil {
			return err
		}
	}
	for _, page := range h.Exact {
		for pos := page * kv.PageCells; pos < min(n, (page+1)*kv.PageCells) && x.ExactRow > 0; pos++ {
			if err := row(layout.Exact, x.ExactRow, pos, c.ExactCell(y.Group, seq, pos)); err != nil {
				return err
			}
		}
	}
	for pos := 0; pos < min(n, h.Pinned) && x.PinnedRow > 0; pos++ {
		if err := row(layout.Pinned, x.PinnedRow, pos, c.PinnedCell(y.Group, seq, pos)); err != nil {
			return err
		}
	}
	if n > 0 && x.SelfRow > 0 {
		return row(layout.Measured, x.SelfRow, 0, int32(seq))
	}
	return nil
}

// saved returns the number of bytes that a sequence takes in a session file, for n
// positions and the given number of states per layer.
func (c *Cache) saved(n int, groups []sessionGroup, states int) int64 {
	var size int64
	add := func(row, count int) {
		if row > 0 && count > 0 {
			size = sat.Add(size, sat.Mul(int64(row), count))
		}
	}
	for i := range c.layout.Layers {
		y := &c.layout.Layers[i]
		if n > 0 {
			add(int(y.StateBytes), states)
		}
		if !y.Owns() {
			continue
		}
		h := &groups[y.Group]
		for _, s := range []kv.Side{kv.K, kv.V} {
			x, end := y.Side(s), n
			if x.PackedByPage() {
				end = h.packed(n)
			}
			add(x.RowBytes, end-h.From)
			add(x.ExactRow, h.exact(n))
			add(x.PinnedRow, min(n, h.Pinned))
			add(x.SelfRow, min(n, 1))
		}
	}
	return size
}

// stateRows returns rows as a StateRows. In models with recurrent states, rows must
// be one.
func (c *Cache) stateRows(rows Rows) (StateRows, error) {
	s, ok := rows.(StateRows)
	if !ok && c.states.on() {
		return nil, errors.New("kv: the memory does not provide recurrent states")
	}
	return s, nil
}

// Save writes a sequence: a header, the rows of every layer in the format's own bytes,
// the recurrent state, and a SHA-256 of everything. It holds one row in memory at a
// time. In models with recurrent state, rows must also be a StateRows.
func (c *Cache) Save(w io.Writer, seq llm.Seq, rows Rows) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	states, err := c.stateRows(rows)
	if err != nil {
		return err
	}
	c.settle(s)
	h := c.header(s)
	if err := c.measure(rows); err != nil {
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
		slots := []int32{c.State(seq)}
		for _, m := range s.earlier() {
			slots = append(slots, m.slot)
		}
		err = c.walk(seq, h.Groups, slots, func(buf []byte, layer int, side kv.Side, tier layout.Tier, cell int32) error {
			return errors.Join(rows.ReadRow(buf, layer, side, tier, cell), write(buf))
		}, func(buf []byte, layer int, slot int32) error {
			return errors.Join(states.ReadState(buf, layer, slot), write(buf))
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

// Load empties a sequence and fills it from the output of Save. It reads no further.
// Data that is damaged or does not fit this cache gives ErrSession, and a lack of
// cells ErrFull. After an error the sequence is empty.
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
	sum := sha256.New()
	h, err := c.accepted(io.TeeReader(r, sum), rows)
	if err != nil {
		return err
	}
	if err := c.extendEmpty(seq, h); err != nil {
		return err
	}
	slots := append([]int32{c.State(seq)}, c.restoreMarks(&c.seqs[seq], h.Marks)...)
	c.lapse(&c.seqs[seq])
	if err := c.bound(seq, &c.seqs[seq], 0); err != nil {
		return err
	}
	in := io.TeeReader(bufio.NewReader(io.LimitReader(r, c.saved(h.Len, h.Groups, len(slots)))), sum)
	err = c.walk(seq, h.Groups, slots, func(buf []byte, layer int, side kv.Side, tier layout.Tier, cell int32) error {
		if err := readFull(in, buf); err != nil || cell < 0 {
			return err // no room for this row, which only an earlier position reads
		}
		return refused(rows.WriteRow(layer, side, tier, cell, buf))
	}, func(buf []byte, layer int, slot int32) error {
		if err := readFull(in, buf); err != nil || slot < 0 {
			return err
		}
		return states.WriteState(layer, slot, buf)
	})
	if err != nil {
		return err
	}
	return checkSum(r, sum)
}

// Verify reads the output of Save to its end as Load does, but changes nothing. It
// returns the number of positions. If Load would reject the data as damaged or as
// made for another cache, Verify returns ErrSession as well.
func (c *Cache) Verify(r io.Reader, rows Rows) (int, error) {
	sum := sha256.New()
	h, err := c.accepted(io.TeeReader(r, sum), rows)
	if err == nil {
		var n int64
		size := c.saved(h.Len, h.Groups, 1+len(h.Marks))
		if n, err = io.CopyN(sum, r, size); errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: it ends early, %d of %d bytes", ErrSession, n, size)
		}
	}
	if err == nil {
		err = checkSum(r, sum)
	}
	if err != nil {
		return 0, fmt.Errorf("kv: verify a saved sequence: %w", err)
	}
	return h.Len, nil
}

// checkSum reads the checksum and compares it with sum, computed from the data.
func checkSum(r io.Reader, sum hash.Hash) error {
	var trailer [sha256.Size]byte
	if err := readFull(r, trailer[:]); err != nil {
		return err
	}
	if !bytes.Equal(trailer[:], sum.Sum(nil)) {
		return fmt.Errorf("%w: it is damaged, because its checksum does not match", ErrSession)
	}
	return nil
}

// readFull fills buf. If the data ends early, it returns ErrSession.
func readFull(r io.Reader, buf []byte) error {
	if n, err := io.ReadFull(r, buf); err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it ends early, %d of %d bytes", ErrSession, n, len(buf))
	} else if err != nil {
		return err
	}
	return nil
}

// readHeader reads up to the first row. The header may have at most most bytes.
func readHeader(r io.Reader, most uint32) (*sessionHeader, error) {
	var start [len(sessionMagic) + 8]byte
	if err := readFull(r, start[:]); err != nil {
		return nil, err
	}
	if string(start[:len(sessionMagic)]) != sessionMagic {
		return nil, fmt.Errorf("%w: it is not a saved sequence", ErrSession)
	}
	version := binary.LittleEndian.Uint32(start[8:])
	if version < sessionOldest || version > sessionVersion {
		return nil, fmt.Errorf("%w: it has format version %d, but this Godwit supports %d to %d", ErrSession, version, sessionOldest, sessionVersion)
	}
	n := binary.LittleEndian.Uint32(start[12:])
	if n > most {
		return nil, fmt.Errorf("%w: its header has %d bytes; the limit is %d", ErrSession, n, most)
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
	if version == sessionOldest && len(h.Points) > 0 {
		return nil, fmt.Errorf("%w: points in format version %d", ErrSession, version)
	}
	return h, nil
}

// accepted reads a header and checks it against this cache.
func (c *Cache) accepted(r io.Reader, rows Rows) (*sessionHeader, error) {
	if err := c.measure(rows); err != nil {
		return nil, err
	}
	here := c.header(&sequence{first: make([]int, len(c.pools)), exact: make([][]int32, len(c.pools))})
	text, err := json.Marshal(here)
	if err != nil {
		return nil, err
	}
	most := 4*len(text) + 1<<10 + 12*(maxSaved+maxPoints)
	for g := range c.exact {
		most += 12 * len(c.exact[g].refs) // page numbers
	}
	h, err := readHeader(r, uint32(most))
	if err != nil {
		return nil, err
	}
	return h, c.accept(h, here)
}

// accept compares a saved header with the header of an empty sequence of this
// cache.
func (c *Cache) accept(h, here *sessionHeader) error {
	if why := h.differs(here); why != "" {
		return fmt.Errorf("%w: %s", ErrSession, why)
	}
	if h.Len < 0 || h.Keep < 0 || h.Keep%kv.PageCells != 0 {
		return fmt.Errorf("%w: a length of %d and a prompt of %d tokens are impossible", ErrSession, h.Len, h.Keep)
	}
	if why := h.misplaced(c.states.on()); why != "" {
		return fmt.Errorf("%w: %s", ErrSession, why)
	}
	s := &sequence{len: h.Len, keep: h.Keep, points: h.points()}
	for g := range h.Groups {
		y := &h.Groups[g]
		if most := s.visible(c.pools[g].window) * kv.PageCells; y.From < 0 || y.From%kv.PageCells != 0 || y.From > most {
			return fmt.Errorf("%w: its rows start at position %d; they must start at a page border up to %d", ErrSession, y.From, most)
		}
		if why := c.exact[g].misfits(s, y); why != "" {
			return fmt.Errorf("%w: %s", ErrSession, why)
		}
	}
	return nil
}

// misfits describes what is wrong with the exact pages of a saved group. It returns
// "" if nothing is wrong.
func (p *exactPool) misfits(s *sequence, h *sessionGroup) string {
	last, end := h.From/kv.PageCells-1, (s.len-1)/kv.PageCells
	if s.len == 0 {
		end = -1 // the end has no exact page
	}
	unpacked := 0 // consecutive exact pages at the end
	for _, i := range h.Exact {
		switch {
		case !p.on() || i <= last || i > end:
			return fmt.Sprintf("exact page %d after %d, of %d positions", i, last, s.len)
		case i < p.window.FirstKept(s.len) && !s.keeps(p.window, i):
			return fmt.Sprintf("exact page %d of %d positions, which nothing needs", i, s.len)
		case i > last+1:
			unpacked = 0
		}
		last = i
		unpacked++
	}
	switch {
	case h.Unpacked < 0 || h.Unpacked > 0 && !p.packedByPage:
		return fmt.Sprintf("%d pages that are not packed", h.Unpacked)
	case h.Unpacked > unpacked || h.Unpacked > 0 && last < end:
		return fmt.Sprintf("%d pages that are not packed, and not all exact", h.Unpacked)
	}
	return ""
}

// extendEmpty extends an empty sequence to the length in h, without the cells
// that the saved sequence lacks. If a window group has no room for pages that
// only a later cut would need, the sequence begins later in that group.
func (c *Cache) extendEmpty(seq llm.Seq, h *sessionHeader) error {
	s := &c.seqs[seq]
	pages := h.Len/kv.PageCells + min(h.Len%kv.PageCells, 1) // h.Len may be close to the largest int
	c.settleAll()
	c.touch(s)
	for g := range c.pools {
		p, first := &c.pools[g], h.Groups[g].From/kv.PageCells
		if need := pages - first; need > len(p.free) && !c.reclaim(g, need) {
			first = min(pages-len(p.free), max(first, visible(h.Len, p.window)))
		}
		if need := pages - first; pages > cap(s.tables[g]) || need > len(p.free) {
			return fmt.Errorf("%w: sequence %d wants %d cells, %d of %d free",
				ErrFull, seq, h.Len, len(p.free)*kv.PageCells, len(p.refs)*kv.PageCells)
		}
		for len(s.tables[g]) < first {
			s.tables[g] = append(s.tables[g], -1)
		}
		for len(s.tables[g]) < pages {
			s.tables[g] = append(s.tables[g], p.alloc())
		}
		s.first[g] = first
		if err := c.placeExact(s, g, &h.Groups[g], h); err != nil {
			return err
		}
	}
	s.len, s.keep, s.points = h.Len, h.Keep, append(s.points[:0], h.points()...)
	return nil
}

// placeExact allocates the exact pages of a group that h lists. Pages that only
// points need are allocated only while pages are free.
func (c *Cache) placeExact(s *sequence, g int, y *sessionGroup, h *sessionHeader) error {
	p := &c.exact[g]
	if !p.on() {
		return nil
	}
	for len(s.exact[g]) < len(s.tables[g]) {
		s.exact[g] = append(s.exact[g], -1)
	}
	first := p.window.FirstKept(h.Len)
	needed := func(i int) bool { return i >= s.first[g] && (i >= first || p.window.Needs(h.Keep, i)) }
	need := 0
	for _, i := range y.Exact {
		if needed(i) {
			need++
		}
	}
	if err := c.exactFree(g, need); err != nil {
		return err
	}
	for _, i := range slices.Backward(y.Exact) {
		if need > 0 && needed(i) {
			need--
			s.exact[g][i] = c.takeExact(g)
			continue
		}
		if i >= s.first[g] && len(p.free) > need {
			s.exact[g][i] = c.takeExact(g)
		}
	}
	for i, page := range s.tables[g] {
		if page < 0 {
			continue
		}
		p.packed[page] = 0
		if i < len(s.tables[g])-y.Unpacked {
			p.packed[page] = int32(p.steps)
		}
	}
	s.low[g] = first
	return nil
}
