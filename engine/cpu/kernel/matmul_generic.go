package kernel

import "godwit/engine/dtype"

// matMulGeneric is the definition of [MatMul]. Blocks are added in order, and integers are exact
// within a block.
func matMulGeneric(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1 int) {
	f := formOf(w.Type)
	for r := panel0 * PanelRows; r < min(panel1*PanelRows, w.Rows); r++ {
		for i := row0; i < row1; i++ {
			y[i*ldy+r] = 0
		}
		panel := w.panel(r / PanelRows)
		f.addRow(y, ldy, panel, r, a, row0, row1)
	}
}

// addRow adds row r of the weights times the activations to y.
func (f *form) addRow(y []float32, ldy int, panel []byte, r int, a *Acts, row0, row1 int) {
	size := len(panel) * f.subs / max(a.stride, 1)
	var codes [32]int8
	for b := range a.stride / f.subs {
		blk := panel[b*size : (b+1)*size]
		for sub := range f.subs {
			f.unpack(&codes, blk, sub, r%PanelRows)
			s := f.scales(blk, sub, r%PanelRows)
			for i := row0; i < row1; i++ {
				p := &y[i*ldy+r]
				*p = f.step(*p, &codes, &s, &a.blocks[i*a.stride+b*f.subs+sub])
			}
		}
	}
}

// step adds 32 columns to acc.
func (f *form) step(acc float32, codes *[32]int8, s *scales, x *actBlock) float32 {
	lo, hi := dot16(codes, x, 0), dot16(codes, x, 16)
	if !f.halves {
		acc = fma(float32(lo+hi)*s.d[0], x.d, acc)
		if f.mins {
			acc = fma(s.m[0], x.s, acc)
		}
		return acc
	}
	u := float32(lo) * s.d[0]
	u = fma(float32(hi), s.d[1], u)
	if f.mins {
		u = fma(float32(x.off[0]), s.m[0]/-32, u)
		u = fma(float32(x.off[1]), s.m[1]/-32, u)
	}
	return fma(u, x.d, acc)
}

// dot16 returns the exact product of 16 columns, which is below 2²⁷.
func dot16(codes *[32]int8, x *actBlock, from int) (sum int32) {
	for i := from; i < from+16; i++ {
		sum += int32(codes[i]) * x.q.at(i)
	}
	return sum
}

// matMulF32Generic is the definition of [MatMulF32].
func matMulF32Generic(y []float32, ldy int, w *Packed, x []float32, ldx, row0, row1, panel0, panel1 int) {
	for p := panel0; p < panel1; p++ {
		panel := w.panel(p)
		n := min(PanelRows, w.Rows-p*PanelRows)
		for i := row0; i < row1; i++ {
			v := x[i*ldx:][:w.Cols]
			out := y[i*ldy+p*PanelRows:][:n]
			for r := range out {
				out[r] = floatDot(w.Type, panel[r*w.Type.Bytes():], v)
			}
		}
	}
}

// floatDot multiplies one row of a float panel by x, even and odd columns
// separately.
func floatDot(t dtype.Type, panel []byte, x []float32) float32 {
	var even, odd float32
	for c := 0; c+1 < len(x); c += 2 {
		even = fma(floatAt(t, panel, PanelRows*c), x[c], even)
		odd = fma(floatAt(t, panel, PanelRows*(c+1)), x[c+1], odd)
	}
	if n := len(x); n%2 == 1 {
		even = fma(floatAt(t, panel, PanelRows*(n-1)), x[n-1], even)
	}
	return even + odd
}
