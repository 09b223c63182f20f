package jinja

import (
	"math"
	"math/big"
)

// number is an integer or a float as an operand.
type number struct {
	big   *big.Int // value of integers that do not fit int64; otherwise nil
	i     int64
	f     float64
	float bool
}

// asNumber returns the number of a numeric value. Booleans are 0 and 1.
func asNumber(v Value) (number, bool) {
	switch v := v.(type) {
	case Bool:
		if v {
			return number{i: 1}, true
		}
		return number{}, true
	case Int:
		return number{i: int64(v)}, true
	case *bigInt:
		return number{big: v.v}, true
	case Float:
		return number{f: float64(v), float: true}, true
	}
	return number{}, false
}

// intValue returns an integer as an Int if it fits, and otherwise as a *bigInt.
func intValue(n *big.Int) Value {
	if n.IsInt64() {
		return Int(n.Int64())
	}
	return &bigInt{n}
}

func (n number) value() Value {
	switch {
	case n.float:
		return Float(n.f)
	case n.big != nil:
		return intValue(n.big)
	}
	return Int(n.i)
}

func (n number) neg() Value {
	if n.float {
		return Float(-n.f)
	}
	if n.big == nil && n.i != math.MinInt64 {
		return Int(-n.i)
	}
	return intValue(new(big.Int).Neg(n.int()))
}

// int returns an integer as a big.Int, which the caller must not change.
func (n number) int() *big.Int {
	if n.big != nil {
		return n.big
	}
	return big.NewInt(n.i)
}

func (n number) isZero() bool {
	if n.float {
		return n.f == 0
	}
	return n.big == nil && n.i == 0
}

// float64 converts a number to a float. An integer beyond float64's range gives an
// error.
func (n number) float64() (float64, error) {
	switch {
	case n.float:
		return n.f, nil
	case n.big == nil:
		return float64(n.i), nil
	}
	f, _ := new(big.Float).SetInt(n.big).Float64()
	if math.IsInf(f, 0) {
		return 0, valueErr("int too large to convert to float")
	}
	return f, nil
}

// cmp compares two numbers exactly; unordered is true if one is NaN.
func (n number) cmp(m number) (sign int, unordered bool) {
	switch {
	case n.float && m.float:
		return cmpFloat(n.f, m.f), math.IsNaN(n.f) || math.IsNaN(m.f)
	case n.float:
		sign, unordered = m.cmp(n)
		return -sign, unordered
	case m.float:
		if math.IsNaN(m.f) {
			return 0, true
		}
		if math.IsInf(m.f, 0) {
			return cmpFloat(0, m.f), false
		}
		return new(big.Rat).SetInt(n.int()).Cmp(new(big.Rat).SetFloat64(m.f)), false
	case n.big == nil && m.big == nil:
		switch {
		case n.i < m.i:
			return -1, false
		case n.i > m.i:
			return 1, false
		}
		return 0, false
	}
	return n.int().Cmp(m.int()), false
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// arith computes a binary operation on numbers.
func (st *state) arith(op string, a, b number) (Value, error) {
	if a.float || b.float || op == "/" {
		return floatArith(op, a, b)
	}
	switch op {
	case "//", "%":
		if b.isZero() {
			return nil, valueErr("integer division or modulo by zero")
		}
	case "**":
		return st.intPow(a, b)
	}
	if a.big == nil && b.big == nil {
		if v, ok := smallArith(op, a.i, b.i); ok {
			return v, nil
		}
	}
	x, y := a.int(), b.int()
	if err := st.charge((x.BitLen() + y.BitLen()) / 64); err != nil {
		return nil, err
	}
	out := new(big.Int)
	switch op {
	case "+":
		out.Add(x, y)
	case "-":
		out.Sub(x, y)
	case "*":
		if x.BitLen()+y.BitLen() > maxBits {
			return nil, limitErr("an integer of more than %d bits", maxBits)
		}
		if err := st.charge(x.BitLen() / 64 * y.BitLen() / 64); err != nil {
			return nil, err
		}
		out.Mul(x, y)
	default:
		if err := st.charge(x.BitLen() / 64 * y.BitLen() / 64); err != nil {
			return nil, err
		}
		mod := new(big.Int)
		out.QuoRem(x, y, mod)
		if mod.Sign() != 0 && mod.Sign() != y.Sign() {
			out.Sub(out, big.NewInt(1))
			mod.Add(mod, y)
		}
		if op == "%" {
			out = mod
		}
	}
	if out.BitLen() > maxBits {
		return nil, limitErr("an integer of more than %d bits", maxBits)
	}
	return intValue(out), nil
}

// smallArith computes in int64. ok is false if the result may not fit.
func smallArith(op string, a, b int64) (Value, bool) {
	switch op {
	case "+":
		c := a + b
		return Int(c), (c > a) == (b > 0)
	case "-":
		c := a - b
		return Int(c), (c < a) == (b > 0)
	case "*":
		if a == 0 || b == 0 {
			return Int(0), true
		}
		const half = 1 << 31
		return Int(a * b), a > -half && a < half && b > -half && b < half
	}
	if a == math.MinInt64 {
		return nil, false
	}
	q, m := a/b, a%b
	if m != 0 && (m < 0) != (b < 0) {
		q, m = q-1, m+b
	}
	if op == "%" {
		return Int(m), true
	}
	return Int(q), true
}

func (st *state) intPow(a, b number) (Value, error) {
	if b.int().Sign() < 0 {
		if a.isZero() {
			return nil, valueErr("0.0 cannot be raised to a negative power")
		}
		return floatArith("**", a, b)
	}
	x := a.int()
	if b.big != nil || int64(x.BitLen()) > 1 && b.i > maxBits/int64(x.BitLen()-1) {
		if x.BitLen() <= 1 { // -1, 0 or 1
			b = number{i: int64(b.int().Bit(0)) + 2}
		} else {
			return nil, limitErr("an integer of more than %d bits", maxBits)
		}
	}
	words := x.BitLen() * int(min(b.i, maxBits)) / 64
	if err := st.charge(words * words / 4); err != nil {
		return nil, err
	}
	return intValue(new(big.Int).Exp(x, big.NewInt(b.i), nil)), nil
}

// floatArith computes in float64. The division of two integers is correctly
// rounded.
func floatArith(op string, a, b number) (Value, error) {
	if op == "/" && !a.float && !b.float && (a.inexact() || b.inexact()) {
		if b.isZero() {
			return nil, valueErr("division by zero")
		}
		f, _ := new(big.Rat).SetFrac(a.int(), b.int()).Float64()
		if math.IsInf(f, 0) {
			return nil, valueErr("integer division result too large for a float")
		}
		return Float(f), nil
	}
	x, err := a.float64()
	if err != nil {
		return nil, err
	}
	y, err := b.float64()
	if err != nil {
		return nil, err
	}
	switch op {
	case "+":
		return Float(x + y), nil
	case "-":
		return Float(x - y), nil
	case "*":
		return Float(x * y), nil
	case "**":
		return floatPow(x, y)
	}
	if y == 0 {
		return nil, valueErr("float division by zero")
	}
	if op == "/" {
		return Float(x / y), nil
	}
	div, mod := floatDivmod(x, y)
	if op == "%" {
		return Float(mod), nil
	}
	return Float(div), nil
}

// inexact reports whether an integer may lose digits when it is converted to
// float64.
func (n number) inexact() bool { return n.big != nil || n.i > 1<<53 || n.i < -1<<53 }

func abs(i int64) int64 {
	if i < 0 {
		return -i
	}
	return i
}

// floatDivmod is Python's divmod of floats.
func floatDivmod(x, y float64) (div, mod float64) {
	mod = math.Mod(x, y)
	div = (x - mod) / y
	if mod != 0 {
		if (y < 0) != (mod < 0) {
			mod += y
			div--
		}
	} else {
		mod = math.Copysign(0, y)
	}
	if div != 0 {
		floor := math.Floor(div)
		if div-floor > 0.5 {
			floor++
		}
		return floor, mod
	}
	return math.Copysign(0, x/y), mod
}

func floatPow(x, y float64) (Value, error) {
	switch {
	case x == 0 && y < 0 && !math.IsInf(y, 0):
		return nil, valueErr("0.0 cannot be raised to a negative power")
	case x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
		return nil, valueErr("a negative number raised to a fraction is a complex number")
	}
	f := math.Pow(x, y)
	if x > 0 && !math.IsInf(x, 0) && !math.IsInf(y, 0) && !math.IsNaN(y) {
		f = pow(x, y)
	} else if x < 0 && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		f = math.Copysign(pow(-x, y), f)
	}
	if math.IsInf(f, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return nil, valueErr("Numerical result out of range")
	}
	return Float(f), nil
}

// roundHalfEven rounds the exact value of f to a number of decimals. digits may
// be negative.
func roundHalfEven(f float64, digits int) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) || digits > 330 {
		return f
	}
	if digits < -330 {
		return math.Copysign(0, f)
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(abs(int64(digits))), nil))
	if digits < 0 {
		scale.Inv(scale)
	}
	r := new(big.Rat).SetFloat64(f)
	r.Mul(r, scale)
	n := roundRat(r)
	r.SetInt(n).Quo(r, scale)
	out, _ := r.Float64()
	return math.Copysign(out, f)
}

// roundRat rounds to the nearest integer, and halves to the even one.
func roundRat(r *big.Rat) *big.Int {
	two := big.NewInt(2)
	num := new(big.Int).Mul(r.Num(), two)
	num.Add(num, r.Denom())
	den := new(big.Int).Mul(r.Denom(), two)
	q, m := new(big.Int).DivMod(num, den, new(big.Int))
	if m.Sign() == 0 && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

// floatToInt is Python's int(f).
func floatToInt(f float64) (Value, error) {
	switch {
	case math.IsNaN(f):
		return nil, valueErr("cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		return nil, valueErr("cannot convert float infinity to integer")
	case math.Abs(f) < 1<<62:
		return Int(int64(f)), nil
	}
	n, _ := big.NewFloat(f).Int(nil)
	return intValue(n), nil
}
