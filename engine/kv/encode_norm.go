package kv

import (
	"math"
	"math/bits"
)

// encodeNorm is the rule of single-block tbq: the plain length is stored and
// divided out before the rotation.
func (t *Type) encodeNorm(dst []byte, x []float32, at At) (saturated int) {
	clear(dst)
	n := sqrt32(sumSquares(x))
	if t.Polar != nil {
		t.Polar.encode(dst, x, n, at)
	}
	saturated = putF16(dst, t.Scale.At, n)
	if n < t.Scale.Floor {
		return saturated
	}
	times(x, 1/n)
	t.Rotation.forward(x)
	var codes [maxBlock]uint8
	t.quantise(codes[:len(x)], x)
	t.Codes.pack(dst, codes[:len(x)])
	if t.Residual != nil {
		g := t.Residual.project(x)
		saturated = max(saturated, t.Residual.put(dst, x, float32(g*n)))
	}
	return saturated
}

// encodeRMS is the rule of tbq forms that rotate first: 512 wide and double
// transform. The scale is the root mean square of the block, or of the whole
// rotation if the scale is joint. A residual form has one block or a joint scale.
func (t *Type) encodeRMS(dst []byte, x []float32) int {
	clear(dst)
	t.Rotation.forward(x)
	blocks := len(x) / t.Elems
	n := rms(x)
	var codes [maxBlock]uint8
	var mask uint
	for b := range blocks {
		block, v := dst[b*t.Bytes:][:t.Bytes], x[b*t.Elems:][:t.Elems]
		if !t.Scale.Joint {
			n = rms(v)
		}
		mask |= uint(putF16(block, t.Scale.At, n)) << b
		if n < t.Scale.Floor {
			continue
		}
		times(v, 1/n)
		t.quantise(codes[:len(v)], v)
		t.Codes.pack(block, codes[:len(v)])
	}
	if t.Residual != nil && !(n < t.Scale.Floor) {
		g := float32(t.Residual.project(x) * n)
		for b := range blocks {
			s := t.Residual.put(dst[b*t.Bytes:][:t.Bytes], x[b*t.Elems:][:t.Elems], g)
			mask |= uint(s) << b
		}
	}
	return bits.OnesCount(mask)
}

// times multiplies x by c. The conversion prevents a later addition from being
// fused with the product. The same holds for all converted products.
func times(x []float32, c float32) {
	for i := range x {
		x[i] = float32(x[i] * c)
	}
}

func rms(x []float32) float32 { return sqrt32(sumSquares(x) / float32(len(x))) }

// quantise writes the codes of x, and with a residual leaves value minus level
// in x.
func (t *Type) quantise(codes []uint8, x []float32) {
	for i, v := range x {
		codes[i] = t.Codes.code(v)
		if t.Residual != nil {
			x[i] = v - t.Codes.Levels[codes[i]]
		}
	}
}

// project converts the residual to the values whose signs are stored, and
// returns its size: the mean magnitude, or the length.
func (r *Residual) project(e []float32) float32 {
	if r.Rule == DirectSign {
		var sum float32
		for _, v := range e {
			sum += abs32(v)
		}
		return sum / float32(len(e))
	}
	g := sqrt32(sumSquares(e))
	mul(e, r.Signs)
	wht(e)
	return g
}

// put stores the residual scale and signs of one block.
func (r *Residual) put(block []byte, e []float32, g float32) int {
	var sign [maxBlock]uint8
	for i, v := range e {
		if v >= 0 {
			sign[i] = 1
		}
	}
	putStream(block[r.Bits:], sign[:len(e)], 1)
	return putF16(block, r.At, g)
}

// encode writes the polar copy of the key x at position at.Pos. n is the key's
// length. Trigonometry is in float64. Results are rounded to float32 where the
// format's arithmetic uses float32. Source: spec kv-formats.md section 7.
func (p *Polar) encode(block []byte, x []float32, n float32, at At) {
	half := len(x) / 2
	base := float64(at.RopeBase)
	if base == 0 {
		base = float64(p.RopeBase)
	}
	var sum float32
	for k := range half {
		sum += float32(x[k]*x[k]) + float32(x[k+half]*x[k+half])
	}
	sigma := max(sqrt32(sum/float32(len(x))), p.Floor)
	putF16(block, p.Sigma, sigma)
	if n != n {
		return
	}
	var radius, angle [maxBlock]uint8
	inv := 1 / sigma
	for k := range half {
		w := math.Exp(-2 * float64(k) * math.Log(base) / float64(len(x)))
		sin, cos := math.Sincos(float64(at.Pos) * w)
		a, b := x[k], x[k+half]
		u := float32(float32(cos)*a) + float32(float32(sin)*b)
		v := float32(float32(cos)*b) - float32(float32(sin)*a)
		radius[k], angle[k] = p.search(u, v, sigma, inv)
	}
	putStream(block[p.Radius:], radius[:half], 3)
	putStream(block[p.Angle:], angle[:half], 4)
}

// polarAngles holds the cosine and sine of the middle of each angle code.
var polarAngles = func() (t [16][2]float32) {
	for a := range t {
		sin, cos := math.Sincos((float64(a)+0.5)/16*2*math.Pi - math.Pi)
		t[a] = [2]float32{float32(cos), float32(sin)}
	}
	return t
}()

// search finds the radius and angle codes of (u, v) with the best trade between
// dot product and squared error, near the plain rounding of both.
func (p *Polar) search(u, v, sigma, inv float32) (radius, angle uint8) {
	length := sqrt32(float32(u*u) + float32(v*v))
	c := Codes{Boundaries: p.Boundaries}
	r0 := int(c.code(float32(length * inv)))
	phase := float32(float32(math.Atan2(float64(v), float64(u)))+math.Pi) * float32(1/(2*math.Pi))
	a0 := min(max(toInt(float32(math.Floor(float64(phase*16)))), 0), 15)
	best := float32(math.Inf(-1))
	radius, angle = uint8(r0), uint8(a0)
	for r := max(r0-2, 0); r <= min(r0+2, len(p.Levels)-1); r++ {
		for step := int32(-2); step <= 2; step++ {
			a := (a0 + step) & 15
			ru := float32(sigma * p.Levels[r] * polarAngles[a][0])
			rv := float32(sigma * p.Levels[r] * polarAngles[a][1])
			dot := float32(ru*u) + float32(rv*v)
			du, dv := ru-u, rv-v
			err := float32(du*du) + float32(dv*dv)
			if s := dot - float32(p.Lambda*err); s > best {
				best, radius, angle = s, uint8(r), uint8(a)
			}
		}
	}
	return radius, angle
}
