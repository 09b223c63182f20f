package grammar

import (
	"errors"
	"math/big"
)

// maxFraction is the maximum number of decimals of a number that has bounds.
const maxFraction = 15

// numbers describes a set of numbers: multiples of step from lo to hi. A nil field
// means no restriction.
type numbers struct {
	lo, hi         *big.Rat
	loOpen, hiOpen bool // whether the bound itself is excluded
	step           *big.Rat
	whole          bool
}

var (
	errNoNumber = errors.New("the range contains no number of at most 16 digits")
	errStep     = errors.New("multipleOf has too many digits")
)

// atLeast raises the lower bound of the set. open excludes the bound itself.
func (n *numbers) atLeast(x *big.Rat, open bool) {
	if c := n.cmp(n.lo, x, -1); c < 0 || c == 0 && open {
		n.lo, n.loOpen = x, open
	}
}

func (n *numbers) atMost(x *big.Rat, open bool) {
	if c := n.cmp(n.hi, x, 1); c > 0 || c == 0 && open {
		n.hi, n.hiOpen = x, open
	}
}

// cmp compares a bound with x, and returns missing if there is no bound.
func (n *numbers) cmp(bound, x *big.Rat, missing int) int {
	if bound == nil {
		return missing
	}
	return bound.Cmp(x)
}

// multiple restricts the set further, to multiples of x. The step becomes the
// least common multiple.
func (n *numbers) multiple(x *big.Rat) {
	if n.step == nil {
		n.step = x
		return
	}
	a, b := n.step, x
	num := new(big.Int).Mul(a.Num(), b.Num())
	num.Div(num, new(big.Int).GCD(nil, nil, a.Num(), b.Num()))
	n.step = new(big.Rat).SetFrac(num, new(big.Int).GCD(nil, nil, a.Denom(), b.Denom()))
}

// has reports whether x is in the set.
func (n *numbers) has(x *big.Rat) bool {
	if n.whole && !x.IsInt() {
		return false
	}
	if n.lo != nil && (x.Cmp(n.lo) < 0 || n.loOpen && x.Cmp(n.lo) == 0) {
		return false
	}
	if n.hi != nil && (x.Cmp(n.hi) > 0 || n.hiOpen && x.Cmp(n.hi) == 0) {
		return false
	}
	return n.step == nil || new(big.Rat).Quo(x, n.step).IsInt()
}

// apart reports whether the bounds of two sets prove that the sets do not
// overlap.
func (n *numbers) apart(o *numbers) bool {
	below := func(a, b *numbers) bool {
		if a.hi == nil || b.lo == nil {
			return false
		}
		c := a.hi.Cmp(b.lo)
		return c < 0 || c == 0 && (a.hiOpen || b.loOpen)
	}
	return below(n, o) || below(o, n)
}

func (n *numbers) free() bool { return n.lo == nil && n.hi == nil && n.step == nil }

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// expr returns an expression for the numbers of the set with at most 16 digits
// before the decimal point and 15 after it.
func (n *numbers) expr() (*expr, error) {
	if n.free() {
		if n.whole {
			return integer, nil
		}
		return number, nil
	}
	decimals, mod := 0, big.NewInt(1)
	if !n.whole {
		decimals = maxFraction
	}
	if n.step != nil {
		if n.whole {
			mod = n.step.Num() // the step is in lowest terms, so whole numbers in the set are multiples of its numerator
		} else {
			decimals = 0
			for den := n.step.Denom(); new(big.Int).Mod(tenTo(decimals), den).Sign() != 0; decimals++ {
				if decimals == maxFraction {
					return nil, errStep
				}
			}
			mod = new(big.Int).Mul(n.step.Num(), new(big.Int).Div(tenTo(decimals), n.step.Denom()))
		}
	}
	limit := tenTo(maxDigits + decimals)
	if mod.Cmp(limit) >= 0 {
		mod = new(big.Int).Set(limit) // only zero is a multiple of the step
	}
	limit.Sub(limit, big.NewInt(1))
	lo, hi := new(big.Int).Neg(limit), limit
	if n.lo != nil {
		lo = maxInt(lo, scaled(n.lo, decimals, n.loOpen, true))
	}
	if n.hi != nil {
		hi = minInt(hi, scaled(n.hi, decimals, n.hiOpen, false))
	}
	var alts []*expr
	if hi.Sign() >= 0 {
		e, err := spell(maxInt(lo, new(big.Int)), hi, decimals, mod)
		if err != nil {
			return nil, err
		}
		alts = append(alts, e)
	}
	if lo.Sign() < 0 {
		e, err := spell(maxInt(big.NewInt(1), new(big.Int).Neg(hi)), new(big.Int).Neg(lo), decimals, mod)
		if err != nil {
			return nil, err
		}
		alts = append(alts, seq(lit("-"), e))
	}
	if lo.Cmp(hi) > 0 {
		return nil, errNoNumber
	}
	return alt(alts...), nil
}

func maxInt(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func minInt(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// scaled multiplies x by 10^decimals and rounds the result up or down to a
// whole number. If open is set and the result is exact, scaled returns the next
// whole number in that direction instead.
func scaled(x *big.Rat, decimals int, open, up bool) *big.Int {
	y := new(big.Rat).Mul(x, new(big.Rat).SetInt(tenTo(decimals)))
	// Euclidean division by a positive number rounds down
	out, rest := new(big.Int).DivMod(y.Num(), y.Denom(), new(big.Int))
	one := big.NewInt(1)
	switch exact := rest.Sign() == 0; {
	case up && (!exact || open):
		out.Add(out, one)
	case !up && exact && open:
		out.Sub(out, one)
	}
	return out
}

// place is a state of the automaton that writes numbers digit by digit.
type place struct {
	length     int // number of digits before the decimal point; 0 once it no longer matters
	at         int // number of digits still to come before the point, or minus the number of digits after it
	low, high  bool
	rest       int64 // remainder of the digits so far, padded with zeros, modulo the step
	pointsOnly bool  // whether the decimal point was the last character
}

// speller builds the automaton for the multiples of mod from lo to hi, written with
// the given number of decimals. Trailing zeros may be left out.
type speller struct {
	decimals int
	mod      int64
	weight   []int64 // 10^i modulo mod
	auto     *auto
	ids      map[place]int
	todo     []place
	bounds   map[int][2]string // digits of the bounds, by number of digits before the point
}

const maxSpelled = 100_000

func spell(lo, hi *big.Int, decimals int, mod *big.Int) (*expr, error) {
	if lo.Cmp(hi) > 0 {
		return never(), nil
	}
	if mod.BitLen() > 32 {
		return spellFew(lo, hi, decimals, mod)
	}
	s := &speller{decimals: decimals, mod: mod.Int64(), auto: newAuto(1), ids: map[place]int{}, bounds: map[int][2]string{}}
	for i, w := 0, int64(1); i < maxDigits+decimals; i++ {
		s.weight = append(s.weight, w%s.mod)
		w = w % s.mod * 10
	}
	one := big.NewInt(1)
	for n := 1; n <= maxDigits; n++ {
		from, to := new(big.Int), new(big.Int).Sub(tenTo(n+decimals), one)
		if n > 1 {
			from = tenTo(n - 1 + decimals)
		}
		from, to = maxInt(from, lo), minInt(to, hi)
		if from.Cmp(to) > 0 {
			continue
		}
		s.bounds[n] = [2]string{padded(from, n+decimals), padded(to, n+decimals)}
		s.auto.edge(0, s.id(place{length: n, at: n, low: true, high: true}), nil)
	}
	for len(s.todo) > 0 {
		p := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		s.grow(p)
		if s.auto.size > maxSpelled {
			return spellFew(lo, hi, decimals, mod)
		}
	}
	return s.auto.expr(), nil
}

// spellFew lists the multiples of a step that is too large for the digit
// automaton.
func spellFew(lo, hi *big.Int, decimals int, mod *big.Int) (*expr, error) {
	var alts []*expr
	n := new(big.Int).Add(lo, new(big.Int).Sub(mod, big.NewInt(1)))
	n.Mul(n.Div(n, mod), mod)
	for ; n.Cmp(hi) <= 0; n = new(big.Int).Add(n, mod) {
		if len(alts) >= 1000 {
			return nil, errStep
		}
		text := padded(n, decimals+1)
		if cut := len(text) - decimals; decimals > 0 {
			text = text[:cut] + "." + text[cut:]
		}
		alts = append(alts, lit(text))
	}
	return alt(alts...), nil
}

func padded(n *big.Int, digits int) string {
	s := n.String()
	for len(s) < digits {
		s = "0" + s
	}
	return s
}

func (s *speller) id(p place) int {
	id, ok := s.ids[p]
	if !ok {
		id = s.auto.add()
		s.ids[p] = id
		s.todo = append(s.todo, p)
	}
	return id
}

// grow adds the edges of a state.
func (s *speller) grow(p place) {
	from := s.ids[p]
	if p.at <= 0 && !p.pointsOnly && s.ends(p) {
		s.auto.final[from] = true
	}
	if p.at == 0 && !p.pointsOnly {
		if s.decimals > 0 {
			q := p
			q.pointsOnly = true
			s.auto.edge(from, s.id(q), lit("."))
		}
		return
	}
	if -p.at == s.decimals && p.at <= 0 {
		return
	}
	lo, hi := byte('0'), byte('9')
	index := p.length - p.at
	if p.low {
		lo = s.bounds[p.length][0][index]
	}
	if p.high {
		hi = s.bounds[p.length][1][index]
	}
	for d := lo; d <= hi; d++ {
		next := s.after(p, d, lo, hi)
		if s.lost(next) {
			continue
		}
		to, e := s.id(next), d
		for d < hi && s.after(p, d+1, lo, hi) == next {
			d++
		}
		s.auto.edge(from, to, class(span{rune(e), rune(d)}))
	}
}

// lost reports whether no further digits can make the number a multiple of the
// step.
func (s *speller) lost(p place) bool {
	left := s.decimals + p.at
	return p.rest != 0 && left < len(tens) && s.mod-p.rest >= tens[left]
}

var tens = [...]int64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

func (s *speller) after(p place, d, lo, hi byte) place {
	q := place{
		length: p.length, at: p.at - 1, low: p.low && d == lo, high: p.high && d == hi,
		rest: (p.rest + int64(d-'0')*s.weight[s.decimals+p.at-1]) % s.mod,
	}
	if !q.low && !q.high {
		q.length = 0
	}
	return q
}

// ends reports whether the number may end here, with zeros as the remaining
// decimals.
func (s *speller) ends(p place) bool {
	if p.low {
		digits := s.bounds[p.length][0]
		for _, c := range digits[len(digits)-s.decimals-p.at:] {
			if c != '0' {
				return false
			}
		}
	}
	return p.rest == 0
}
