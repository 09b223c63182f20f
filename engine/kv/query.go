package kv

// RotateQuery prepares a query head for keys of this type. dst has Padded(len(q))
// values, and so has res if the type has a Residual. The score of a row is then Σ
// over blocks of scale·Σ dst·level (+ min·Σ dst) + residual scale·Σ ±res.
func (t *Type) RotateQuery(dst, res, q []float32) {
	if t.Join != nil {
		for _, p := range t.Join {
			n := p.Form.Padded(p.Dim)
			var r []float32
			if res != nil {
				r, res = res[:n], res[n:]
			}
			p.Form.RotateQuery(dst[:n], r, q[:p.Dim])
			dst, q = dst[n:], q[p.Dim:]
		}
		return
	}
	clear(dst[copy(dst, q):])
	size := t.Rotation.Size
	if size == 0 {
		return
	}
	for first := 0; first < len(dst); first += size {
		x := dst[first : first+size]
		t.Rotation.query(x)
		if t.Residual == nil || t.Residual.Factor == 0 || res == nil {
			continue
		}
		e := res[first : first+size]
		copy(e, x)
		if t.Residual.Rule == Projected {
			mul(e, t.Residual.Signs)
			wht(e)
			scale(e, t.Residual.Factor)
		}
	}
}

// UnrotateOutput inverts the rotation of the finished sum of weighted V rows. acc
// has Padded(headDim) values and is overwritten. Its first len(dst) values go to
// dst.
func (t *Type) UnrotateOutput(dst, acc []float32) {
	if t.Join != nil {
		for _, p := range t.Join {
			n := min(p.Dim, len(dst))
			p.Form.UnrotateOutput(dst[:n], acc[:p.Form.Padded(p.Dim)])
			dst, acc = dst[n:], acc[p.Form.Padded(p.Dim):]
			if len(dst) == 0 {
				return
			}
		}
		return
	}
	if size := t.Rotation.Size; size > 0 {
		for first := 0; first < len(dst); first += size {
			t.Rotation.inverse(acc[first : first+size])
		}
	}
	copy(dst, acc)
}

// HasResidual reports whether keys of this type need the second query vector.
func (t *Type) HasResidual() bool {
	for _, p := range t.Join {
		if p.Form.HasResidual() {
			return true
		}
	}
	return t.Residual != nil && t.Residual.Factor != 0
}

// Score returns the dot product of a prepared query and one packed key. It is the
// plain reference for kernels.
func (t *Type) Score(q, res []float32, row []byte) float32 {
	var s float32
	for _, g := range t.Segments(len(q)) {
		n := g.Form.Padded(g.Dim)
		var r []float32
		if res != nil && g.Form.Residual != nil && g.Form.Residual.Factor != 0 {
			r = res[g.Lane : g.Lane+n]
		}
		s += g.Form.score(q[g.Lane:g.Lane+n], r, row[g.At:])
	}
	return s
}

func (t *Type) score(q, res []float32, row []byte) (total float32) {
	if t.Float {
		var v [1]float32
		for i, x := range q {
			decodeFloats(v[:], row[i*t.Bytes:], t.Stored)
			total += float32(x * v[0])
		}
		return total
	}
	var codes [maxBlock]uint8
	c := codes[:t.Elems]
	for first := 0; first < len(q); first += t.Elems {
		t.Codes.unpack(c, row)
		var dot, sum float32
		for i, code := range c {
			dot += float32(q[first+i] * t.Codes.level(code))
			sum += q[first+i]
		}
		if t.Scale.Unit != 0 {
			dot *= t.Scale.Unit
		}
		total += float32(f16At(row, t.Scale.At) * dot)
		if t.Scale.Affine {
			total += float32(f16At(row, t.Scale.Min) * sum)
		}
		if res != nil {
			stream(c, row[t.Residual.Bits:], 1)
			var r float32
			for i, bit := range c {
				if bit == 1 {
					r += res[first+i]
				} else {
					r -= res[first+i]
				}
			}
			total += float32(f16At(row, t.Residual.At) * r)
		}
		row = row[t.Bytes:]
	}
	return total
}
