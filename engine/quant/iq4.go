package quant

import "encoding/binary"

// In the IQ4 formats, a 4-bit code selects one of sixteen fixed levels. A value is
// scale·level.
//
// An IQ4_NL block of 18 bytes holds 32 values. It begins with the scale as float16.
// Then come nibbles as in Q4_0.
//
// An IQ4_XS block of 136 bytes holds 256 values. It begins with a float16 d. Each 32
// values have a 6-bit s, and their scale is d·(s-32). A 16-bit word holds the two
// high bits of all eight s, and the next 4 bytes hold their low nibbles. Then come
// 16 bytes of nibbles per 32 values, as in Q4_0.

// levelsIQ4 holds the level of each IQ4 code.
var levelsIQ4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4_NL(dst []float32, src []byte) {
	for len(dst) > 0 {
		b := (*[18]byte)(src)
		putLevels((*[32]float32)(dst), (*[16]byte)(b[2:]), &levelsIQ4, half(b[0], b[1]))
		dst, src = dst[32:], src[18:]
	}
}

func decodeIQ4_XS(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[136]byte)(src), (*[256]float32)(dst)
		d := half(b[0], b[1])
		hi := binary.LittleEndian.Uint16(b[2:])
		for g := range 8 {
			s := b[4+g/2]>>(4*(g%2))&15 | byte(hi>>(2*g))&3<<4
			putLevels((*[32]float32)(y[32*g:]), (*[16]byte)(b[8+16*g:]), &levelsIQ4, d*float32(int32(s)-32))
		}
		dst, src = dst[256:], src[136:]
	}
}

// putLevels writes scale·level for 32 nibbles in the order of Q4_0.
func putLevels(dst *[32]float32, q *[16]byte, levels *[16]int8, scale float32) {
	var v [16]float32
	for i, l := range levels {
		v[i] = scale * float32(l)
	}
	for j, c := range q {
		dst[j], dst[j+16] = v[c&15], v[c>>4]
	}
}

func encodeIQ4_NL(dst []byte, src, importance []float32) {
	for len(src) > 0 {
		b, x := (*[18]byte)(dst), (*[32]float32)(src)
		var q codes32
		var d float32
		if importance == nil {
			d = q.levelsRule(x)
		} else {
			d = q.levelsSearch(x, (*[32]float32)(importance))
			importance = importance[32:]
		}
		putScale(b[:], d)
		q.putNibbles(b[2:])
		dst, src = dst[18:], src[32:]
	}
}

// levelsRule is ggml's one-pass rule. It first selects codes with the scale that
// puts the value with the largest magnitude on level -127. It returns the
// least-squares scale for these codes with weights x².
func (q *codes32) levelsRule(x *[32]float32) float32 {
	m := widest(x)
	if max(m, -m) < 1e-15 {
		return 0
	}
	id := 1 / (m / -127)
	var num, den float32
	for j, f := range x {
		q[j] = levelIQ4(float64(f * id))
		l := float32(levelsIQ4[q[j]])
		w := f * f
		num += float32(w * l * f)
		den += float32(w * l * l)
	}
	if !(den > 0) {
		return 0
	}
	return num / den
}

// levelsSearch encodes x with a d that is exact in float16. d can be negative.
func (q *codes32) levelsSearch(x, w *[32]float32) float32 {
	xs, ws := widen32(x, w)
	most := widest64(xs[:])
	if most == 0 {
		return 0 // with a scale of 0, the codes do not matter
	}
	var gain, d float64
	try := func(inv float64) {
		xl, ll := projectIQ4(&xs, &ws, inv)
		if g := float64(xl * xl); ll > 0 && g > gain*ll {
			gain, d = g/ll, xl/ll
		}
	}
	for i := -10.0; i <= 30; i++ {
		inv := (113 + i) / most
		try(inv)
		try(-inv)
	}
	for range polish {
		try(inverse64(d))
	}
	stored := round16(d)
	q.fillIQ4(&xs, inverse64(float64(stored)))
	return stored
}

func (q *codes32) fillIQ4(x *[32]float64, inv float64) {
	for j, f := range x {
		q[j] = levelIQ4(float64(f * inv))
	}
}

// projectIQ4 is like project, with the levels of IQ4 instead of whole numbers.
func projectIQ4(x, w *[32]float64, inv float64) (xl, ll float64) {
	for i, f := range x {
		l := float64(levelsIQ4[levelIQ4(float64(f*inv))])
		wl := float64(w[i] * l)
		xl += float64(wl * f)
		ll += float64(wl * l)
	}
	return xl, ll
}

// nearIQ4 holds the code of the nearest level for every multiple of 1/2 from -127
// to 112.5. The code also applies to all numbers up to the next multiple, because
// the midpoints between adjacent levels are multiples of 1/2.
var nearIQ4 = func() (t [480]uint8) {
	var c uint8
	for i := range t {
		if c < 15 && i-254 >= int(levelsIQ4[c])+int(levelsIQ4[c+1]) {
			c++
		}
		t[i] = c
	}
	return t
}()

// levelIQ4 returns the code of the nearest level. If two levels are equally near, it
// returns the upper one. It returns 15 for NaN.
func levelIQ4(x float64) uint8 {
	at := 2*x + 254
	switch {
	case at < 0:
		return 0
	case at < 480:
		return nearIQ4[int32(at)]
	}
	return 15
}
