package attn

import (
	"encoding/binary"
	"math/bits"

	"godwit/engine/cpu/kernel"
	"godwit/engine/kv"
)

// codes is a segment whose values are codes of 2, 3, 4, 5 or 8 bits with a
// level table and an f16 scale per block, or trellis codes (see trellis.go).
//
// A page of codes is a sequence of steps of 64 codes. Each step is the operand
// of one integer dot product: 16 lanes of 4. In a page of K a lane is a token
// and its four codes are values of the head. Step 4g+t holds values 4g to 4g+3
// of tokens 16t to 16t+15. In a page of V a lane is a value and its four codes
// are tokens. Every chunk of 64 values (32 if blocks are that short) has 16
// groups of four tokens, and each group has one step for every 16 values.
//
// A plane of b bits holds 8/b steps in 64 bytes, the first in the lowest bits.
// Codes of 3 and 5 bits take two planes, 8-bit codes one. After the planes come
// the sign plane of a residual and the scales, minima and residual scales,
// [block][64 tokens]. The bytes that attention does not read are the rest of
// the page: the planes of a second half (see twin), and unread bytes of rows.
// Together, both parts take exactly as many bytes as the rows.
type codes struct {
	kv.Segment
	side   kv.Side
	float  bool
	values int // values of a head including padding; half of them if there is a twin
	elems  int // values per block
	chunk  int // contiguous values in a page of V
	levels *levels
	cyclic *trellis // nil if the codes are not trellis codes
	encode encoder

	low, high, sign      plane
	scale, min, resScale int // offsets in the page; -1 if missing
	rest                 int // offset of the unread bytes in the rest of the page
	unread               []span
	unreadBytes          int
	restBytes            int   // unread bytes per page
	read                 span  // the bytes that attention reads
	twin                 *twin // nil if no half is an image of the other
}

// plane is the place of some bits of every code in a page.
type plane struct{ at, bits int }

// span is a range of bytes of a block or a page.
type span struct{ at, n int }

// arrangeable reports whether codes can store a simple form.
func arrangeable(t *kv.Type) bool {
	c := &t.Codes
	if t.Elems == 0 || t.Elems%32 != 0 || t.Elems > 64 && t.Elems%64 != 0 || t.Elems > maxElems || t.Scale.Rule == kv.NoScale {
		return false
	}
	switch c.Packing {
	case kv.Stream:
		if c.Bits < 2 || c.Bits > 4 {
			return false
		}
	case kv.Planes:
		if c.Bits != 3 {
			return false
		}
	case kv.Halves:
		if c.Bits != 4 && c.Bits != 5 {
			return false
		}
	case kv.Int8:
	case kv.Cyclic:
		if c.Bits < 2 || c.Bits > 4 || len(c.Levels) != 256 {
			return false
		}
	default:
		return false
	}
	if c.Levels != nil && c.Packing != kv.Cyclic && len(c.Levels) != 1<<c.Bits {
		return false
	}
	_, ok := unread(t)
	return ok
}

// maxElems is the largest number of values per block.
const maxElems = 256

// reads reports whether attention reads the residual of a form.
func reads(r *kv.Residual) bool { return r != nil && r.Factor != 0 }

// unread lists the bytes of a block that attention does not read. ok is false
// if the other bytes overlap or extend beyond the block.
func unread(t *kv.Type) (list []span, ok bool) {
	used := []span{{t.Scale.At, 2}}
	if t.Scale.Affine {
		used = append(used, span{t.Scale.Min, 2})
	}
	c := &t.Codes
	switch {
	case c.Packing == kv.Planes:
		used = append(used, span{c.At, t.Elems / 4}, span{c.High, t.Elems / 8})
	case c.Packing == kv.Halves && c.Bits == 5:
		used = append(used, span{c.At, t.Elems / 2}, span{c.High, t.Elems / 8})
	default:
		used = append(used, span{c.At, t.Elems * c.Bits / 8})
	}
	if r := t.Residual; reads(r) {
		used = append(used, span{r.At, 2}, span{r.Bits, t.Elems / 8})
	}
	free := make([]bool, t.Bytes)
	for i := range free {
		free[i] = true
	}
	for _, u := range used {
		for i := u.at; i < u.at+u.n; i++ {
			if i < 0 || i >= t.Bytes || !free[i] {
				return nil, false
			}
			free[i] = false
		}
	}
	for i := 0; i < t.Bytes; i++ {
		if !free[i] {
			continue
		}
		n := 1
		for i+n < t.Bytes && free[i+n] {
			n++
		}
		list = append(list, span{i, n})
		i += n
	}
	return list, true
}

func newCodes(g kv.Segment, begin places, o Options, alone bool) *codes {
	t := g.Form
	p := &codes{
		Segment: g, side: o.Side, float: o.Float,
		values: g.Blocks * t.Elems, elems: t.Elems, chunk: min(64, t.Elems),
		min: -1, resScale: -1,
	}
	p.levels, p.encode, p.cyclic = newLevels(t, o.Side), encoderOf(t), newTrellis(t, o.Side)
	if alone && imaged(g, o, p.levels) {
		p.values /= 2
	}
	at, rest := begin.read, begin.rest
	take := takeFrom(&at)
	p.planesAt(take)
	line := 2 * Cells * g.Blocks
	if reads(t.Residual) {
		p.sign = plane{take(p.values * Cells / 8), 1}
		p.resScale = take(line)
	}
	p.scale = take(line)
	if t.Scale.Affine {
		p.min = take(line)
	}
	p.read = span{begin.read, at - begin.read}
	take = takeFrom(&rest)
	if p.values < g.Blocks*t.Elems {
		p.twin = newTwin(p, take)
	}
	p.unread, _ = unread(t)
	for _, u := range p.unread {
		p.unreadBytes += u.n
	}
	p.rest = take(p.unreadBytes * Cells * g.Blocks)
	p.restBytes = rest - begin.rest
	return p
}

// takeFrom returns a function that allocates consecutive byte ranges, starting
// at at.
func takeFrom(at *int) func(bytes int) int {
	return func(bytes int) int {
		first := *at
		*at += bytes
		return first
	}
}

// planesAt allocates the planes.
func (p *codes) planesAt(take func(bytes int) int) {
	bits := p.Form.Codes.Bits
	p.low.bits = bits &^ 1
	if p.cyclic != nil {
		p.low.bits = bits
	}
	p.low.at = take(p.values * p.low.bits * Cells / 8)
	if p.low.bits < bits {
		p.high = plane{take(p.values * Cells / 8), 1}
	}
}

func (p *codes) first(dim int) segment {
	if p.First >= dim {
		return nil
	}
	return p
}

func (p *codes) reads() int { return p.read.n }

func (p *codes) rests() int { return p.restBytes }

func (p *codes) scratch() int { return p.values * Cells }

// prefetchForWrite prefetches for writing the planes of K, in which a cell has codes in every line
// or every fourth line, and the cell's part of the rest.
func (p *codes) prefetchForWrite(page Page, cell int) {
	p.prefetchPlanes(page.Read, cell)
	if p.twin != nil {
		p.twin.second.prefetchPlanes(page.Rest, cell)
	}
	for _, at := range []int{p.scale, p.min, p.resScale} {
		for b := 0; b < p.Blocks && at >= 0; b++ {
			kernel.PrefetchForWrite(page.Read[at+2*(b*Cells+cell):][:2])
		}
	}
	if p.sign.bits > 0 {
		p.prefetchPlane(page.Read, p.sign, cell)
	}
}

func (p *codes) prefetchPlanes(page []byte, cell int) {
	if p.cyclic != nil {
		for b := range p.Blocks {
			n := p.cyclic.beside * p.cyclic.bytes
			kernel.PrefetchForWrite(p.strings(page, b)[cell/p.cyclic.beside*n:][:n])
		}
		return
	}
	p.prefetchPlane(page, p.low, cell)
	if p.high.bits > 0 {
		p.prefetchPlane(page, p.high, cell)
	}
}

func (p *codes) prefetchPlane(page []byte, pl plane, cell int) {
	if p.side == kv.K {
		kernel.PrefetchForWrite(page[pl.at:][:p.values*Cells*pl.bits/8])
		return
	}
	per := 8 / pl.bits
	for d := 0; d < p.values; d += p.chunk {
		s, _ := p.step(cell, d)
		kernel.PrefetchForWrite(page[pl.at+64*(s/per) : pl.at+64*((s+p.chunk/16-1)/per+1)])
	}
}

// put splits a row. A block's codes go to the planes unchanged.
func (p *codes) put(page Page, cell int, row []byte) (asymmetric bool) {
	var buf [maxElems]uint8
	c := buf[:p.elems]
	t := p.Form
	rest := page.Rest[p.rest+cell*p.unreadBytes*p.Blocks:]
	for b := range p.Blocks {
		block := row[p.At+b*t.Bytes:][:t.Bytes]
		if p.cyclic != nil {
			p.cyclic.put(p.strings(page.Read, b), cell, block[t.Codes.At:])
			p.putHalf(page.Read, p.scale, cell, b, block, t.Scale.At)
			continue
		}
		unpack(c, &t.Codes, block)
		if t.Codes.Packing == kv.Int8 && p.side == kv.K {
			flip(c)
		}
		p.scatterAll(page, cell, b, c)
		p.putHalf(page.Read, p.scale, cell, b, block, t.Scale.At)
		asymmetric = asymmetric || p.asymmetric(page, cell, c)
		if p.min >= 0 {
			p.putHalf(page.Read, p.min, cell, b, block, t.Scale.Min)
		}
		if p.resScale >= 0 {
			p.putHalf(page.Read, p.resScale, cell, b, block, t.Residual.At)
			unstream(c, block[t.Residual.Bits:], 1)
			p.scatter(page.Read, p.sign, cell, b, c, 0)
		}
		for _, u := range p.unread {
			rest = rest[copy(rest[:u.n], block[u.at:]):]
		}
	}
	return asymmetric
}

// get assembles a row.
func (p *codes) get(row []byte, page Page, cell int) {
	var buf [maxElems]uint8
	c := buf[:p.elems]
	t := p.Form
	rest := page.Rest[p.rest+cell*p.unreadBytes*p.Blocks:]
	for b := range p.Blocks {
		block := row[p.At+b*t.Bytes:][:t.Bytes]
		if p.cyclic != nil {
			p.cyclic.get(block[t.Codes.At:], p.strings(page.Read, b), cell)
			p.getHalf(block, t.Scale.At, page.Read, p.scale, cell, b)
			continue
		}
		clear(c)
		p.gatherAll(c, page, cell, b)
		if t.Codes.Packing == kv.Int8 && p.side == kv.K {
			flip(c)
		}
		pack(block, &t.Codes, c)
		p.getHalf(block, t.Scale.At, page.Read, p.scale, cell, b)
		if p.min >= 0 {
			p.getHalf(block, t.Scale.Min, page.Read, p.min, cell, b)
		}
		if p.resScale >= 0 {
			p.getHalf(block, t.Residual.At, page.Read, p.resScale, cell, b)
			clear(c)
			p.gather(c, page.Read, p.sign, cell, b, 0)
			putStream(block[t.Residual.Bits:], c, 1)
		}
		for _, u := range p.unread {
			rest = rest[copy(block[u.at:u.at+u.n], rest):]
		}
	}
}

// flip converts between signed and unsigned bytes.
func flip(c []uint8) {
	for i := range c {
		c[i] ^= 0x80
	}
}

func (p *codes) putHalf(page []byte, at, cell, b int, block []byte, from int) {
	copy(page[at+2*(b*Cells+cell):][:2], block[from:])
}

func (p *codes) getHalf(block []byte, to int, page []byte, at, cell, b int) {
	copy(block[to:to+2], page[at+2*(b*Cells+cell):])
}

// step returns the step that contains value d of a cell, and the byte in the
// step.
func (p *codes) step(cell, d int) (step, at int) {
	if p.side == kv.K {
		return d/4*4 + cell/16, cell%16*4 + d%4
	}
	group := d/p.chunk*16 + cell/4
	return group*(p.chunk/16) + d%p.chunk/16, d%16*4 + cell%4
}

// scatterAll writes the codes of block b into the planes.
func (p *codes) scatterAll(page Page, cell, b int, c []uint8) {
	if p.twin != nil {
		p.twin.second.scatterPlanes(page.Rest, cell, b, c[p.values:])
		c = c[:p.values]
	}
	p.scatterPlanes(page.Read, cell, b, c)
}

func (p *codes) scatterPlanes(page []byte, cell, b int, c []uint8) {
	p.scatter(page, p.low, cell, b, c, 0)
	if p.high.bits > 0 {
		p.scatter(page, p.high, cell, b, c, p.low.bits)
	}
}

// gatherAll adds the codes of block b to c.
func (p *codes) gatherAll(c []uint8, page Page, cell, b int) {
	if p.twin != nil {
		p.twin.second.gatherPlanes(c[p.values:], page.Rest, cell, b)
		c = c[:p.values]
	}
	p.gatherPlanes(c, page.Read, cell, b)
}

func (p *codes) gatherPlanes(c []uint8, page []byte, cell, b int) {
	p.gather(c, page, p.low, cell, b, 0)
	if p.high.bits > 0 {
		p.gather(c, page, p.high, cell, b, p.low.bits)
	}
}

// scatter writes the bits of the codes of block b that belong to a plane, from
// bit number first on.
func (p *codes) scatter(page []byte, pl plane, cell, b int, c []uint8, first int) {
	at := page[pl.at:]
	if p.side == kv.K {
		scatterTokens(at[cell%16*4:], c, b*p.elems+cell/16, pl.bits, first)
		return
	}
	for i := 0; i < len(c); i += p.chunk {
		s, _ := p.step(cell, b*p.elems+i)
		scatterValues(at, c[i:i+p.chunk], s, pl.bits, cell%4, first)
	}
}

// scatterTokensGeneric writes width bits of every code, from bit number first on,
// into a plane of K. Four codes share a step, and the next four are four steps
// further.
func scatterTokensGeneric(plane, c []uint8, step, width, first int) {
	last := 8/width - 1 // mask of the step index within a line of 64 bytes
	log := bits.Len(uint(last))
	mask := (uint32(1)<<width - 1) * 0x01010101
	for ; len(c) >= 4; c = c[4:] {
		n := step & last * width
		x := plane[step>>log*64:]
		v := binary.LittleEndian.Uint32(c) >> first & mask
		old := binary.LittleEndian.Uint32(x)
		binary.LittleEndian.PutUint32(x, old&^(mask<<n)|v<<n)
		step += 4
	}
}

// scatterValuesGeneric writes width bits of every code, from bit number first on,
// into a plane of V. Each step takes 16 codes, one per lane of four bytes, and at
// is the number of the byte in a lane.
func scatterValuesGeneric(plane, c []uint8, step, width, at, first int) {
	last := 8/width - 1
	log := bits.Len(uint(last))
	mask := uint8(1<<width - 1)
	for ; len(c) >= 16; c = c[16:] {
		n := step & last * width
		x := plane[step>>log*64+at:][:61]
		clear := ^(mask << n)
		for j, v := range c[:16] {
			x[4*j] = x[4*j]&clear | v>>first&mask<<n
		}
		step++
	}
}

// gather adds the bits of a plane to the codes, from bit number first on.
func (p *codes) gather(c []uint8, page []byte, pl plane, cell, b, first int) {
	mask := uint8(1<<pl.bits - 1)
	steps := 8 / pl.bits
	for i := range c {
		s, at := p.step(cell, b*p.elems+i)
		c[i] |= page[pl.at+s/steps*64+at] >> (s % steps * pl.bits) & mask << first
	}
}
