package jinja

import (
	"math"
	"math/big"
)

// pow computes x**y for finite x > 0 and finite y. In nearly all cases the result
// is correctly rounded, as in the C library that Python uses. math.Pow gives other
// results.
func pow(x, y float64) float64 {
	rough := math.Pow(x, y)
	if math.IsInf(rough, 0) || rough == 0 || math.IsNaN(rough) {
		return rough
	}
	const prec = 160
	f := func(v float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(v) }
	frac, exp := math.Frexp(x)
	// x = frac·2^exp with frac near 1, so that the series of the logarithm is short
	if frac < math.Sqrt2/2 {
		frac, exp = frac*2, exp-1
	}
	ln2 := logNearOne(f(2), prec)
	ln := logNearOne(f(frac), prec)
	ln.Add(ln, new(big.Float).Mul(ln2, f(float64(exp))))
	e := ln.Mul(ln, f(y))
	// e^e = 2^k · e^rest with |rest| <= ln2/2
	q, _ := new(big.Float).Quo(e, ln2).Float64()
	k := math.Round(q)
	rest := e.Sub(e, new(big.Float).SetPrec(prec).Mul(ln2, f(k)))
	sum, term := f(1), f(1)
	for i := 1; i < 40; i++ {
		term.Mul(term, rest)
		term.Quo(term, f(float64(i)))
		sum.Add(sum, term)
	}
	out, _ := sum.SetMantExp(sum, int(k)).Float64()
	return out
}

// logNearOne is the natural logarithm by 2·artanh((x-1)/(x+1)), x in [0.7, 2].
func logNearOne(x *big.Float, prec uint) *big.Float {
	one := new(big.Float).SetPrec(prec).SetInt64(1)
	z := new(big.Float).SetPrec(prec).Sub(x, one)
	z.Quo(z, new(big.Float).SetPrec(prec).Add(x, one))
	sq := new(big.Float).SetPrec(prec).Mul(z, z)
	sum := new(big.Float).SetPrec(prec)
	term := new(big.Float).SetPrec(prec).Set(z)
	for i := int64(1); i < 120; i += 2 {
		part := new(big.Float).SetPrec(prec).SetInt64(i)
		sum.Add(sum, part.Quo(term, part))
		term.Mul(term, sq)
	}
	return sum.Add(sum, sum)
}
