package attn

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/kv"
)

// allCells has a bit for each cell of a page.
const allCells = 1<<Cells - 1

// signs are the levels of an expanded sign plane.
var signs = levels{unit: 1, zero: 128, exact: true}

func (p *codes) room(n int) prepared {
	var r prepared
	res := p.sign.bits > 0
	if p.float {
		r.coef = newCoef(n, p.values)
		if p.cyclic != nil {
			r.rest = make([]float32, p.values)
		}
		if res {
			r.signs = newCoef(n, p.values)
		}
	} else {
		r.codes = newOperand(n, p.values, p.Blocks, p.per())
		if p.twin != nil {
			p.roomTwin(&r, n)
		}
		if p.levels.plain {
			r.rest = make([]float32, p.values)
		}
		if res {
			r.bits = newOperand(n, p.values, p.Blocks, 1)
		}
	}
	if p.min >= 0 {
		r.sums = make([]float32, n*p.Blocks)
	}
	return r
}

// per returns the number of int8 rows per query.
func (p *codes) per() int {
	if p.levels.plain {
		return 2
	}
	return 1
}

func (p *codes) prepare(r *prepared, i int, q, res []float32) {
	if p.twin != nil {
		p.prepareTwin(r, i, q)
		return
	}
	q = q[p.Lane : p.Lane+p.values]
	res = res[min(p.Lane, len(res)):]
	if p.float {
		if p.cyclic != nil {
			kernel.Scale(r.rest, q, p.levels.unit)
			q = r.rest
		}
		setCoef(r.coef, i, q)
		if p.sign.bits > 0 {
			setCoef(r.signs, i, res[:p.values])
		}
	} else {
		r.codes.set(i*p.per(), q, p.levels.unit, p.levels.zero, r.rest)
		if p.per() == 2 {
			r.codes.set(i*2+1, r.rest, p.levels.unit, p.levels.zero, nil)
		}
		if p.sign.bits > 0 {
			r.bits.set(i, res[:p.values], 1, 128, nil)
		}
	}
	if p.min >= 0 {
		p.sum(r, i, q)
	}
}

// sum stores the factor of a block's minima. It is the sum of the query's
// values, rounded as in int8 arithmetic.
func (p *codes) sum(r *prepared, i int, q []float32) {
	for b := range p.Blocks {
		sum := &r.sums[i*p.Blocks+b]
		if !p.float {
			*sum = r.codes.sum(i, b, p.levels)
			continue
		}
		*sum = 0
		for _, v := range q[b*p.elems : (b+1)*p.elems] {
			*sum += v
		}
	}
}

func (p *codes) scores(dst []float32, r *prepared, n int, visits []Visit, s *Scratch) {
	for len(visits) > 0 {
		symmetric := p.symmetric(visits)
		if symmetric == 0 {
			v := &visits[0]
			p.scoresAsymmetric(dst[v.At:], r, n, v, s)
			symmetric = 1
		} else {
			p.scoresSymmetric(dst, r, n, visits[:symmetric], s)
		}
		visits = visits[symmetric:]
	}
}

// symmetric returns the number of leading visits without asymmetric cells.
func (p *codes) symmetric(visits []Visit) int {
	if p.twin == nil {
		return len(visits)
	}
	for i := range visits {
		if visits[i].Rest != nil {
			return i
		}
	}
	return len(visits)
}

func (p *codes) scoresSymmetric(dst []float32, r *prepared, n int, visits []Visit, s *Scratch) {
	if p.tokensRun(dst, r, n, visits) {
		return
	}
	for i := range visits {
		v := &visits[i]
		p.scoresPage(dst[v.At:], r, n, v.Page, v.Page, v.Ahead, s)
	}
}

// scoresPage adds the scores of a page's codes. meta holds their scales. It is
// page itself or, if page is only the rest of a page, the page with that rest.
func (p *codes) scoresPage(dst []float32, r *prepared, n int, page, meta []byte, ahead int, s *Scratch) {
	if p.float {
		p.scoresFloat(dst, r, n, page, ahead, s)
	} else {
		if pl := p.planes(page); p.planar() && pl.reads(n) {
			dotTokens(&dotTokensArgs{dst: dst, n: n, planes: pl, q: &r.codes, scales: meta[p.scale:], ahead: ahead})
		} else {
			tile, far := p.expand(page, ahead, allCells, s)
			dotTokensAll(dst, n, tile, &r.codes, meta[p.scale:], far)
		}
		if p.sign.bits > 0 {
			expand(s.codes, page[p.sign.at:], nil, p.sign.bits, &signLevels, p.values, ahead)
			dotTokensAll(dst, n, s.codes, &r.bits, page[p.resScale:], 0)
		}
	}
	for b := range p.Blocks {
		if p.min < 0 {
			break
		}
		for i := range n {
			addHalf(dst[i*Cells:], page[p.min+2*b*Cells:], r.sums[i*p.Blocks+b])
		}
	}
}

// expand turns the codes of a page into bytes, at least for the tokens in used.
// A byte is the int8 level. On K it is levels.zero higher. If the page already
// stores such bytes, far is the distance that their reader prefetches.
func (p *codes) expand(page []byte, ahead int, used uint64, s *Scratch) (tile []byte, far int) {
	switch {
	case p.levels.plain:
		return page[p.low.at:], ahead
	case p.cyclic != nil:
		p.lookUpTrellis(s.codes, page, ahead, used)
		return s.codes, 0
	}
	return p.lookUp(page, ahead, s, &p.levels.table), 0
}

// planar reports whether codes lie in planes and are looked up in a table.
func (p *codes) planar() bool { return !p.levels.plain && p.cyclic == nil }

func (p *codes) lookUp(page []byte, ahead int, s *Scratch, table *[64]byte) []byte {
	pl := p.planes(page)
	expand(s.codes, pl.low, pl.high, p.low.bits, table, p.values, ahead)
	return s.codes
}

func (p *codes) planes(page []byte) planes {
	pl := planes{low: page[p.low.at:], bits: p.low.bits + p.high.bits, table: &p.levels.table}
	if p.high.bits > 0 {
		pl.high = page[p.high.at:]
	}
	return pl
}

// expandFloat makes the bytes that decode converts to levels.
func (p *codes) expandFloat(page []byte, ahead int, used uint64, s *Scratch) []byte {
	if p.levels.exact {
		tile, _ := p.expand(page, ahead, used, s)
		return tile
	}
	return p.lookUp(page, ahead, s, &p.levels.index)
}

func (p *codes) scoresFloat(dst []float32, r *prepared, n int, page []byte, ahead int, s *Scratch) {
	p.scoresPlane(dst, n, p.expandFloat(page, ahead, allCells, s), p.levels, r.coef, page[p.scale:], s)
	if p.sign.bits > 0 {
		expand(s.codes, page[p.sign.at:], nil, p.sign.bits, &signLevels, p.values, ahead)
		p.scoresPlane(dst, n, s.codes, &signs, r.signs, page[p.resScale:], s)
	}
}

// scoresPlane adds level·scale·query in float arithmetic.
func (p *codes) scoresPlane(dst []float32, n int, codes []byte, l *levels, coef []float32, scales []byte, s *Scratch) {
	width := p.chunk
	per := chunks64(p.values) * panel * 64
	for d := 0; d < p.values; d += width {
		decode(s.tile, codes[d*Cells:], width/4, 4, l)
		for i := 0; i < n; i += panel {
			m := min(panel, n-i)
			clear(s.sums[:m*Cells])
			mulAdd(&mulAddArgs{
				acc: s.sums[:], ld: Cells, n: m, lanes: Cells,
				x: s.tile, pitch: Cells * 4,
				coef: coef[i/panel*per+d/64*panel*64+d%64:], steps: ones(width),
			})
			addScaled(dst[i*Cells:], s.sums[:m*Cells], scales[d/p.elems*2*Cells:])
		}
	}
}

func (p *codes) accumulate(acc []float32, ld int, w []float32, n int, visits []Visit, s *Scratch) {
	for len(visits) > 0 {
		symmetric := p.symmetric(visits)
		if symmetric == 0 {
			if v := &visits[0]; v.Used != 0 {
				p.accumulateAsymmetric(acc, ld, w[v.At:], n, v, s)
			}
			symmetric = 1
		} else {
			p.accumulateSymmetric(acc, ld, w, n, visits[:symmetric], s)
		}
		visits = visits[symmetric:]
	}
}

func (p *codes) accumulateSymmetric(acc []float32, ld int, w []float32, n int, visits []Visit, s *Scratch) {
	done, blocks := p.valuesRun(acc, ld, w, n, visits, s)
	for i := done; i < len(visits); i++ {
		if v := &visits[i]; v.Used != 0 {
			p.accumulatePage(acc, ld, w[v.At:], n, v.Page, v.Page, v.Ahead, v.Used, blocks, s)
		}
		blocks = 0
	}
}

// accumulatePage adds a page without its first blocks. meta is as in
// scoresPage.
func (p *codes) accumulatePage(acc []float32, ld int, w []float32, n int, page, meta []byte, ahead int, used uint64, blocks int, s *Scratch) {
	if p.float {
		p.accumulateFloat(acc, ld, w, n, page, ahead, used, s)
	} else {
		p.accumulateInt(acc, ld, w, n, page, meta, ahead, used, blocks, s)
	}
	if p.min < 0 {
		return
	}
	for b := range p.Blocks {
		for i := range n {
			m := dotHalf(w[i*Cells:], page[p.min+2*b*Cells:])
			if p.levels.centre != 0 {
				m += float32(p.levels.centre * dotHalf(w[i*Cells:], page[p.scale+2*b*Cells:]))
			}
			a := acc[i*ld+p.Lane+b*p.elems:][:p.elems]
			for j := range a {
				a[j] += m
			}
		}
	}
}

func (p *codes) accumulateInt(acc []float32, ld int, w []float32, n int, page, meta []byte, ahead int, used uint64, blocks int, s *Scratch) {
	groups := groupsOf(used)
	pl := p.planes(page)
	fused := p.side == kv.V && p.planar() && pl.reads(n)
	var tile []byte
	if !fused {
		tile, ahead = p.expand(page, ahead, used, s)
	}
	for i := 0; i < n; i += panel {
		v := dotValuesArgs{ld: ld, n: min(panel, n-i), vecs: p.chunk / 16, groups: groups}
		for d := blocks * p.elems; d < p.values; d += p.chunk {
			if d%p.elems == 0 {
				s.w8.set(w[i*Cells:], v.n, meta[p.scale+d/p.elems*2*Cells:], p.levels.unit)
			}
			v.acc, v.w, v.scale, v.ahead = acc[i*ld+p.Lane+d:], &s.w8.pos, &s.w8.scale, ahead
			if fused {
				v.planes, v.first = pl, d
			} else {
				v.tile = p.valuesTile(tile, d, s)
			}
			dotValues(&v)
			if s.w8.signed {
				v.w, v.scale, v.ahead = &s.w8.neg, &s.w8.negScale, 0
				dotValues(&v)
			}
		}
		ahead = 0
	}
}

// valuesTile returns the chunk of the tile that begins at value d, in the order
// of V.
func (p *codes) valuesTile(tile []byte, d int, s *Scratch) []byte {
	if p.side == kv.V {
		return tile[d*Cells:]
	}
	transpose(s.transposed, tile[d*Cells:], p.chunk/16, 0x80)
	return s.transposed
}

func (p *codes) accumulateFloat(acc []float32, ld int, w []float32, n int, page []byte, ahead int, used uint64, s *Scratch) {
	codes := p.expandFloat(page, ahead, used, s)
	for d := 0; d < p.values; d += p.chunk {
		c := codes[d*Cells:]
		if p.side == kv.K {
			transpose(s.transposed, c, p.chunk/16, 0)
			c = s.transposed
		}
		decode(s.tile, c, Cells/4, p.chunk/16, p.levels)
		for i := 0; i < n; i += panel {
			m := min(panel, n-i)
			mulHalf(s.sums[:m*Cells], w[i*Cells:], page[p.scale+d/p.elems*2*Cells:])
			if p.cyclic != nil {
				kernel.Scale(s.sums[:m*Cells], s.sums[:m*Cells], p.levels.unit)
			}
			mulAdd(&mulAddArgs{
				acc: acc[i*ld+p.Lane+d:], ld: ld, n: m, lanes: p.chunk,
				x: s.tile, pitch: p.chunk * 4,
				coef: s.sums[:], steps: used,
			})
		}
	}
}

// groupsOf returns a bit for each group of four cells that contains a used one.
func groupsOf(used uint64) (groups uint64) {
	for g := range 16 {
		if used>>(4*g)&15 != 0 {
			groups |= 1 << g
		}
	}
	return groups
}
