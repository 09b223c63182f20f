package quant

import "math"

// formK holds the differences between the K formats. In all of them, a value is
// d·s·q - dmin·m, and the values of a group share s and m.
type formK struct {
	bytes    int     // bytes of a block
	group    int     // values that share s and m
	lo, hi   float64 // range of q
	slo, shi float64 // range of s; the range of m is 0 to shi
	mins     bool    // whether m is stored; otherwise it is 0
}

// superblock holds 256 values while they are encoded in a K format.
type superblock struct {
	form *formK
	x, w [256]float64
	q    [256]int8
	params
}

type params struct {
	d, dmin float32 // exact in float16
	s, m    [16]float64
}

const roundsK = 3 // rounds that choose s, m and q and then fit d and dmin

// encode encodes src block by block. put stores a block.
func (f *formK) encode(dst []byte, src, importance []float32, put func(dst []byte, b *superblock)) {
	b := superblock{form: f}
	for len(src) > 0 {
		widen(b.x[:], src[:256])
		if importance == nil {
			fill(b.w[:], 1)
		} else {
			weights(b.w[:], importance[:256])
			importance = importance[256:]
		}
		b.search()
		clear(dst[:f.bytes])
		put(dst[:f.bytes], &b)
		dst, src = dst[f.bytes:], src[256:]
	}
}

// search chooses scales and codes. It first fits every group alone, then d and dmin
// to the groups. Then it improves both alternately.
func (b *superblock) search() {
	b.start()
	best, least := b.params, math.Inf(1)
	for range roundsK {
		err := b.tune()
		if err >= least {
			break
		}
		best, least = b.params, err
		b.refit()
	}
	b.params = best
	for g := range 256 / b.form.group {
		step, low := b.step(g)
		inv := inverse64(step)
		for i := g * b.form.group; i < (g+1)*b.form.group; i++ {
			b.q[i] = int8(code(b.x[i]+low, inv, b.form.lo, b.form.hi))
		}
	}
}

// run returns the values and weights of group g.
func (b *superblock) run(g int) (x, w []float64) {
	n := b.form.group
	return b.x[g*n : (g+1)*n], b.w[g*n : (g+1)*n]
}

// step returns d·s and dmin·m of group g.
func (b *superblock) step(g int) (step, low float64) {
	return float64(float64(b.d) * b.s[g]), float64(float64(b.dmin) * b.m[g])
}

// start fits every group alone and then d and dmin to the groups.
func (b *superblock) start() {
	f := b.form
	n := 256 / f.group
	var scale, curve, low, weight [16]float64 // each group's scale and minimum, and their weights in the fit (curve, weight)
	for g := range n {
		x, w := b.run(g)
		if !f.mins {
			scale[g] = fitScale(x, w, f.lo, f.hi)
			_, curve[g] = project(x, w, inverse64(scale[g]), f.lo, f.hi)
			continue
		}
		var m float64
		scale[g], m = fitAffine(x, w, f.hi, true)
		low[g] = -m
		s := values(x, w)
		s.codes(x, w, inverse64(scale[g]), m, f.hi)
		if s.w > 0 {
			weight[g], curve[g] = s.w, s.qq-float64(s.q*s.q)/s.w
		}
	}
	b.d = round16(fitScale(scale[:n], curve[:n], f.slo, f.shi))
	b.dmin = round16(fitScale(low[:n], weight[:n], 0, f.shi))
	for g := range n {
		b.s[g] = code(scale[g], inverse64(float64(b.d)), f.slo, f.shi)
		b.m[g] = code(low[g], inverse64(float64(b.dmin)), 0, f.shi)
	}
}

// tune changes every s and m by at most one if that reduces the error. It returns
// the remaining error.
func (b *superblock) tune() (total float64) {
	f := b.form
	for g := range 256 / f.group {
		x, w := b.run(g)
		least := math.Inf(1)
		s, m := b.s[g], b.m[g]
		for _, ts := range [3]float64{s, s - 1, s + 1} {
			for _, tm := range [3]float64{m, m - 1, m + 1} {
				if ts < f.slo || ts > f.shi || tm < 0 || tm > f.shi || tm > 0 && !f.mins {
					continue
				}
				err := squares(x, w, float64(float64(b.d)*ts), float64(float64(b.dmin)*tm), f.lo, f.hi)
				if err < least {
					least, b.s[g], b.m[g] = err, ts, tm
				}
			}
		}
		total += least
	}
	return total
}

// squares returns Σ w(x-step·q+low)² for the best codes q.
func squares(x, w []float64, step, low, lo, hi float64) (sum float64) {
	inv := inverse64(step)
	w = w[:len(x)]
	for i, f := range x {
		f += low
		f -= float64(step * code(f, inv, lo, hi))
		sum += float64(w[i] * float64(f*f))
	}
	return sum
}

// refit sets d and dmin to the least-squares solution for the current s, m and
// codes.
func (b *superblock) refit() {
	f := b.form
	var aa, am, mm, xa, xm float64 // moments of x, a = s·q and m
	for g := range 256 / f.group {
		x, w := b.run(g)
		step, low := b.step(g)
		inv, m := inverse64(step), b.m[g]
		for i, v := range x {
			a := b.s[g] * code(v+low, inv, f.lo, f.hi)
			wa, wm := float64(w[i]*a), float64(w[i]*m)
			aa += float64(wa * a)
			am += float64(wa * m)
			mm += float64(wm * m)
			xa += float64(wa * v)
			xm += float64(wm * v)
		}
	}
	if det := float64(aa*mm) - float64(am*am); det > 0 {
		d := (float64(xa*mm) - float64(xm*am)) / det
		dmin := (float64(xa*am) - float64(xm*aa)) / det
		if d > 0 && dmin > 0 {
			b.d, b.dmin = round16(d), round16(dmin)
		}
	} else if mm == 0 && aa > 0 {
		b.d = round16(xa / aa)
	}
}

// putNibbles stores the low four bits of the codes in the order of Q4_K.
func (b *superblock) putNibbles(dst []byte) {
	for g := range 4 {
		d, q := (*[32]byte)(dst[32*g:]), (*[64]int8)(b.q[64*g:])
		for j := range d {
			d[j] = byte(q[j])&15 | byte(q[j+32])<<4
		}
	}
}

// putPairs stores the low two bits of code+bias in the order of Q2_K. It needs dst
// to be zero.
func (b *superblock) putPairs(dst []byte, bias int8) {
	for i, q := range b.q {
		dst[i/128*32+i%32] |= byte(q+bias) & 3 << (i % 128 / 32 * 2)
	}
}
