package neon

import (
	"encoding/binary"
	"math"
)

// Constants loads 32-bit constants into registers, from Free downwards. It
// overwrites R19.
type Constants struct {
	*File
	Free V
}

// Bits loads a word into every lane of the next register.
func (c *Constants) Bits(name string, b uint32) V {
	r := c.Free
	c.Free--
	var data [16]byte
	for i := range 4 {
		binary.LittleEndian.PutUint32(data[4*i:], b)
	}
	c.Const(r, name, data, R19)
	return r
}

// Float loads a float into every lane of the next register.
func (c *Constants) Float(name string, f float32) V { return c.Bits(name, math.Float32bits(f)) }

// Exp holds the constants of the exponential. It does the same operations in
// the same order as package kernel's plain Go.
type Exp struct {
	*File
	lo, hi, magic, log2e, ln2Hi, ln2Lo, e2, e3, e4, e5, e6 V

	One  V // 1
	Bias V // 127, as a word
}

// Exp loads the constants of the exponential.
func (c *Constants) Exp() *Exp {
	return &Exp{
		File:  c.File,
		lo:    c.Float("expLo", -104),
		hi:    c.Float("expHi", 89),
		magic: c.Float("magic", 12582912),
		log2e: c.Float("log2e", 1.44269504088896340736),
		ln2Hi: c.Float("ln2Hi", 0.693147182464599609375),
		ln2Lo: c.Float("ln2Lo", -1.90465429995776804525e-9),
		e2:    c.Float("exp2", 0.49999994),
		e3:    c.Float("exp3", 0.16666521),
		e4:    c.Float("exp4", 0.041668385),
		e5:    c.Float("exp5", 0.00836871),
		e6:    c.Float("exp6", 0.0013814636),
		One:   c.Float("one", 1),
		Bias:  c.Bits("bias", 127),
	}
}

// Horner leaves p·x + c in dst, which must be a different register.
func (f *File) Horner(dst, p, x, c V) {
	f.Move(dst, c)
	f.V("fmla.4s", dst, p, x)
}

// MinusOne splits x into n·ln2 and a remainder r. It leaves n in t and e^r - 1
// in the next register, and x becomes r. The third register from t on is
// scratch.
func (e *Exp) MinusOne(x, t V) {
	n, p, u := t, t+1, t+2
	e.V("fmax.4s", x, x, e.lo)
	e.V("fmin.4s", x, x, e.hi)
	e.Horner(n, x, e.log2e, e.magic)
	e.V("fsub.4s", n, n, e.magic)
	e.V("fmls.4s", x, n, e.ln2Hi)
	e.V("fmls.4s", x, n, e.ln2Lo)
	e.Horner(p, e.e6, x, e.e5)
	e.Horner(u, p, x, e.e4)
	e.Horner(p, u, x, e.e3)
	e.Horner(u, p, x, e.e2)
	e.V("fmul.4s", u, u, x)
	e.Horner(p, u, x, x)
}

// Of replaces x by e^x. t and the next two registers are scratch.
func (e *Exp) Of(x, t V) {
	n, p, u := t, t+1, t+2
	e.MinusOne(x, t)
	e.V("fadd.4s", p, p, e.One)
	e.N("fcvtns.4s", n, n)
	e.Shift("sshr.4s", u, n, 1)
	e.V("sub.4s", n, n, u)
	for _, half := range []V{u, n} {
		e.V("add.4s", half, half, e.Bias)
		e.Shift("shl.4s", half, half, 23)
	}
	e.V("fmul.4s", p, p, u)
	e.V("fmul.4s", x, p, n)
}
