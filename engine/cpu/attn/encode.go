package attn

import (
	"encoding/binary"
	"math"

	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
	"godwit/engine/kv"
)

// encoder writes a group of values that are rotated together into a cell. Its
// bytes and result equal those of the type's own Encode.
type encoder func(p *codes, page Page, cell, first int, x []float32, s *Scratch) (saturated int)

// encoderOf returns the encoder of a form, or nil if only the type's own Encode
// fits.
func encoderOf(t *kv.Type) encoder {
	size := t.Rotation.Size
	switch {
	case t.Residual != nil || t.Polar != nil || t.Scale.Affine || len(t.Codes.Boundaries) > 15:
	case t.Codes.Packing == kv.Int8 && t.Scale.Rule == kv.StockAmax:
		return (*codes).encodeAmax
	case t.Scale.Rule == kv.Unbiased && size == t.Elems:
		return (*codes).encodeTrellis
	case t.Codes.Boundaries == nil || size < t.Elems:
	case t.Scale.Rule == kv.CorrectedNorm:
		return (*codes).encodeCorrected
	case t.Scale.Rule == kv.Norm && size == t.Elems:
		return (*codes).encodeNorm
	case t.Scale.Rule == kv.RMS && !t.Scale.Joint:
		return (*codes).encodeRMS
	case t.Scale.Rule == kv.OuterAmax && size == t.Elems:
		return (*codes).encodeOuter
	case t.Scale.Rule == kv.RotatedNorm && size == t.Elems:
		return (*codes).encodeRotated
	}
	return nil
}

// write encodes the segment's values of a head into a cell.
func (p *codes) write(page Page, cell int, x []float32, at kv.At, s *Scratch) (saturated int) {
	if p.encode == nil {
		saturated = p.Form.Encode(s.row[p.At:p.At+p.Blocks*p.Form.Bytes], x, at)
		s.Asymmetric = p.put(page, cell, s.row)
		return saturated
	}
	group := max(p.elems, p.Form.Rotation.Size)
	for first := 0; first < p.Blocks*p.elems; first += group {
		v := s.value[:group]
		n := 0
		if first < len(x) {
			n = copy(v, x[first:])
		}
		clear(v[n:])
		saturated += p.encode(p, page, cell, first, v, s)
	}
	n := p.unreadBytes * p.Blocks
	clear(page.Rest[p.rest+cell*n:][:n])
	return saturated
}

// store writes the codes and the scale of a block. It returns 1 if the scale
// was saturated.
func (p *codes) store(page Page, cell, block int, c []uint8, scale float32) int {
	p.scatterAll(page, cell, block, c)
	return putScale(page.Read[p.scale+2*(block*Cells+cell):], scale)
}

// putScale stores v as f16. It returns 1 if the value was saturated.
func putScale(dst []byte, v float32) int {
	h, n := saturated(v)
	binary.LittleEndian.PutUint16(dst, h)
	return n
}

// saturated rounds to f16. Values that are too large become the largest f16,
// and NaN becomes 0. n is 1 in these cases.
func saturated(v float32) (h uint16, n int) {
	h = dtype.F32ToF16(v)
	switch {
	case h&0x7fff > 0x7c00:
		return 0, 1
	case h&0x7fff == 0x7c00:
		return h - 1, 1
	}
	return h, 0
}

// saturatedHalves counts the values that toHalf saturates.
func saturatedHalves(x []float32) (n int) {
	// A finite sum has no NaN among its terms, and below 65520 every value fits
	// f16.
	if sum := kernel.Sum(x); sum-sum == 0 && maxAbs(x) < 65520 {
		return 0
	}
	for _, v := range x {
		_, one := saturated(v)
		n += one
	}
	return n
}

// encodeCorrected implements the rule CorrectedNorm.
func (p *codes) encodeCorrected(page Page, cell, first int, x []float32, s *Scratch) (saturated int) {
	t := p.Form
	n := sqrt32(sumSquares(x))
	inv := float32(0)
	switch {
	case n > t.Scale.Floor:
		inv = 1 / n
	case t.Scale.ZeroNaN:
		clear(x)
	}
	kernel.Scale(x, x, inv)
	forward(&t.Rotation, x, t.Rotation.Forward)
	c := s.code8[:len(x)]
	codesOf(c, x, t.Codes.Boundaries)
	var sum float32
	for _, k := range c {
		sum += p.levels.squares[k&15]
	}
	if m := sqrt32(sum); m > t.Scale.Floor {
		n /= m
	}
	for i := 0; i < len(c); i += p.elems {
		saturated += p.store(page, cell, (first+i)/p.elems, c[i:i+p.elems], n)
	}
	s.Asymmetric = p.asymmetric(page, cell, c)
	return saturated
}

// encodeNorm implements the rule Norm.
func (p *codes) encodeNorm(page Page, cell, first int, x []float32, s *Scratch) (saturated int) {
	t := p.Form
	n := sqrt32(sumSquares(x))
	c := s.code8[:len(x)]
	if n < t.Scale.Floor {
		clear(c)
	} else {
		kernel.Scale(x, x, 1/n)
		forward(&t.Rotation, x, t.Rotation.Forward)
		codesOf(c, x, t.Codes.Boundaries)
	}
	return p.store(page, cell, first/p.elems, c, n)
}

// encodeRMS implements the rule RMS with one scale per block.
func (p *codes) encodeRMS(page Page, cell, first int, x []float32, s *Scratch) (saturated int) {
	t := p.Form
	forward(&t.Rotation, x, t.Rotation.Forward)
	c := s.code8[:p.elems]
	for i := 0; i < len(x); i += p.elems {
		v := x[i : i+p.elems]
		n := sqrt32(sumSquares(v) / float32(len(v)))
		if n < t.Scale.Floor {
			clear(c)
		} else {
			kernel.Scale(v, v, 1/n)
			codesOf(c, v, t.Codes.Boundaries)
		}
		saturated += p.store(page, cell, (first+i)/p.elems, c, n)
	}
	return saturated
}

// encodeOuter implements the rule OuterAmax.
func (p *codes) encodeOuter(page Page, cell, first int, x []float32, s *Scratch) (saturated int) {
	t := p.Form
	forward(&t.Rotation, x, t.Rotation.Forward)
	d := maxAbs(x) / t.Scale.Outer
	inv := float32(0)
	if d > 0 {
		inv = 1 / d
	}
	kernel.Scale(x, x, inv)
	c := s.code8[:len(x)]
	codesOf(c, x, t.Codes.Boundaries)
	return p.store(page, cell, first/p.elems, c, d)
}

// encodeRotated implements the rule RotatedNorm; NaN gets code 0.
func (p *codes) encodeRotated(page Page, cell, first int, x []float32, s *Scratch) (saturated int) {
	t := p.Form
	forward(&t.Rotation, x, t.Rotation.Forward)
	n := sqrt32(sumSquares(x))
	c := s.code8[:len(x)]
	if n > 0 {
		kernel.Scale(x, x, 1/n)
		codesOf(c, x, t.Codes.Boundaries)
		for i, v := range x {
			if v != v {
				c[i] = 0
			}
		}
	} else {
		for i := range c {
			c[i] = t.Scale.Zero
		}
	}
	return p.store(page, cell, first/p.elems, c, n)
}

// encodeAmax implements the rule StockAmax. Blocks that are not finite use the
// type's own encoder.
func (p *codes) encodeAmax(page Page, cell, first int, x []float32, s *Scratch) (saturated int) {
	t := p.Form
	if t.Rotation.Size > 0 {
		forward(&t.Rotation, x, t.Rotation.Forward)
	}
	c := s.code8[:p.elems]
	for i := 0; i < len(x); i += p.elems {
		v := x[i : i+p.elems]
		amax := maxAbs(v)
		d := amax / 127
		var inv float32
		if d != 0 {
			inv = 1 / d
		}
		if sum := kernel.Sum(v); sum-sum != 0 || inv-inv != 0 {
			amaxGeneric(c, v, &d)
		} else {
			roundAway(c, v, inv)
		}
		if p.side == kv.K {
			flip(c)
		}
		saturated += p.store(page, cell, (first+i)/p.elems, c, d)
	}
	return saturated
}

// amaxGeneric is StockAmax for any value, as in the reference: NaN restarts the
// running maximum, and values that do not fit an int32 become its lowest value.
func amaxGeneric(c []uint8, x []float32, d *float32) {
	var amax float32
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); !(amax > a) {
			amax = a
		}
	}
	*d = amax / 127
	var inv float32
	if *d != 0 {
		inv = 1 / *d
	}
	for i, v := range x {
		r := math.Round(float64(float32(v * inv)))
		if !(r >= math.MinInt32 && r <= math.MaxInt32) {
			r = math.MinInt32
		}
		c[i] = uint8(int32(r))
	}
}

func roundAwayGeneric(c []uint8, x []float32, inv float32) {
	for i, v := range x {
		c[i] = uint8(int32(math.Round(float64(float32(v * inv)))))
	}
}

func codesOfGeneric(c []uint8, x, boundaries []float32) {
	for i, v := range x {
		k := uint8(0)
		for _, b := range boundaries {
			if !(b > v) {
				k++
			}
		}
		c[i] = k
	}
}

// sumSquares adds the squares in index order.
func sumSquares(x []float32) (s float32) {
	for _, v := range x {
		s += float32(v * v)
	}
	return s
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func toHalfGeneric(dst []byte, x []float32) {
	for i, v := range x {
		putScale(dst[2*i:], v)
	}
}
