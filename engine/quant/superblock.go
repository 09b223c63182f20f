package quant

import "math"

// formK is what the K formats differ in: a value is d·s·q - dmin·m, s and m
// shared by a group.
type formK struct {
	bytes    int     // bytes of a block
	group    int     // values that share s and m
	lo, hi   float64 // codes q
	slo, shi float64 // s; m runs from 0 to shi
	mins     bool    // m is stored; else it is 0
}

// superblock is 256 values on their way into a K format.
type superblock struct {
	form *formK
	x, w [256]float64
	q    [256]int8
	params
}

type params struct {
	d, dmin float32 // as float16 holds them
	s, m    [16]float64
}

const roundsK = 3 // rounds of choosing s, m and q and fitting d and dmin

// encode codes src block by block; put stores a block.
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

// search chooses scales and codes: first each group for itself, then d and dmin
// for the groups' scales, then both alternately.
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
	var scale, curve, low, weight [16]float64 // a group's optimum, and how much it matters
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

// tune moves every s and m by at most one where that helps, and returns the
// error that is left.
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

// squares is Σ w(x-step·q+low)² for the best codes.
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

// refit sets the d and dmin of the least squares for the s, m and codes at hand.
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

// putNibbles stores the low four bits of the codes as Q4_K holds them.
func (b *superblock) putNibbles(dst []byte) {
	for g := range 4 {
		d, q := (*[32]byte)(dst[32*g:]), (*[64]int8)(b.q[64*g:])
		for j := range d {
			d[j] = byte(q[j])&15 | byte(q[j+32])<<4
		}
	}
}

// putPairs stores the low two bits of code+bias as Q2_K holds them.
func (b *superblock) putPairs(dst []byte, bias int8) {
	for i, q := range b.q {
		dst[i/128*32+i%32] |= byte(q+bias) & 3 << (i % 128 / 32 * 2)
	}
}
