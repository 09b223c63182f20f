package grammar

import (
	"errors"
	"slices"
)

// flat returns the expression for the documents of one alternative. If there are
// none, it returns nil and may set f.why.
func (s *schemaBuilder) flat(f *flat) (*expr, error) {
	if f.fixed {
		return s.values(f)
	}
	types := f.made()
	if types == everyType && f.hints == 0 {
		return ref(s.b.jsonRules().value), nil
	}
	var alts []*expr
	add := func(e *expr, err error) error {
		if e != nil {
			alts = append(alts, e)
		}
		return err
	}
	var err error
	for _, t := range []typeSet{tObject, tArray, tText, tWhole | tNumber, tBool, tNull} {
		if types&t == 0 {
			continue
		}
		switch t {
		case tObject:
			err = add(s.object(f))
		case tArray:
			err = add(s.array(f))
		case tText:
			err = add(s.text(f))
		case tBool:
			err = add(boolean, nil)
		case tNull:
			err = add(lit("null"), nil)
		default:
			err = add(s.number(f, types))
		}
		if err != nil {
			return nil, err
		}
	}
	if len(alts) == 0 {
		return nil, nil
	}
	return alt(alts...), nil
}

// made returns the types that may be generated. Without a "type" keyword, these
// are the types that the other keywords apply to.
func (f *flat) made() typeSet {
	if !f.typed && f.hints != 0 && f.types&f.hints != 0 {
		return f.types & f.hints
	}
	return f.types
}

// values returns the values of enum and const that satisfy the remaining keywords.
func (s *schemaBuilder) values(f *flat) (*expr, error) {
	var alts []*expr
	for _, v := range f.enum {
		ok, err := s.fits(v, f)
		if err != nil {
			return nil, err
		}
		if ok {
			alts = append(alts, v.expr())
		}
	}
	if len(alts) > 8 && !slices.ContainsFunc(alts, func(e *expr) bool { return e.op != opLit }) {
		return literals(alts), nil
	}
	if len(alts) == 0 {
		f.why = errors.New("no value of enum satisfies the other keywords").Error()
		return nil, nil
	}
	return alt(alts...), nil
}

// literals returns the alternatives of literals, with common prefixes merged.
// Otherwise a long list would add a state for each literal at its start.
func literals(list []*expr) *expr {
	type step struct {
		from int
		c    byte
	}
	a := newAuto(1)
	next := map[step]int{}
	for _, e := range list {
		at := 0
		for _, c := range e.lit {
			to, ok := next[step{at, c}]
			if !ok {
				to = a.add()
				next[step{at, c}] = to
				a.edge(at, to, &expr{op: opLit, lit: []byte{c}})
			}
			at = to
		}
		a.final[at] = true
	}
	return a.expr()
}

func (s *schemaBuilder) number(f *flat, types typeSet) (*expr, error) {
	n := f.num
	n.whole = types&tNumber == 0
	e, err := n.expr()
	switch {
	case errors.Is(err, errNoNumber):
		f.why = err.Error()
		return nil, nil
	case err != nil:
		if err := s.lack(f.path+"/multipleOf", "%v", err); err != nil {
			return nil, err
		}
		n.step = nil
		if e, err = n.expr(); err != nil {
			return nil, fault(f.path+"/multipleOf", "%v", err)
		}
	}
	return e, s.spend(f.path, weight(e))
}

// weight returns the number of states in the automata of an expression.
func weight(e *expr) int {
	n := 0
	if e.auto != nil {
		n = e.auto.size
	}
	for _, sub := range e.subs {
		n += weight(sub)
	}
	return n
}

// part is an element of a comma-separated sequence.
type part struct {
	e    *expr
	must bool
}

const maxSequence = 20_000

// sequence returns the expression for open, then parts in order, then any number of
// more, then end.
// Only parts with must set are required. The sequence has lo to hi elements in all,
// separated by commas. If hi is -1, there is no upper limit.
func (s *schemaBuilder) sequence(path, open, end string, parts []part, more []*expr, lo, hi int) (*expr, error) {
	last := max(lo, 1) // all counts from here on are equivalent
	if hi >= 0 {
		last = hi
	}
	if (len(parts)+1)*(last+1) > maxSequence {
		if err := s.lack(path+"/minProperties", "counting %d to %d takes too many states", lo, hi); err != nil {
			return nil, err
		}
		lo, hi, last = 0, -1, 1
	}
	if err := s.spend(path, (len(parts)+1)*(last+1)); err != nil {
		return nil, err
	}
	a := newAuto(1 + (len(parts)+1)*(last+1))
	at := func(i, n int) int { return 1 + i*(last+1) + n }
	final := a.add()
	a.final[final] = true
	a.edge(0, at(0, 0), lit(open))
	for i := range len(parts) + 1 {
		for n := range last + 1 {
			from := at(i, n)
			next := n + 1
			if hi < 0 {
				next = min(next, last)
			}
			thing := func(e *expr, to int) {
				if next > last {
					return
				}
				if n > 0 {
					e = seq(comma, e)
				}
				a.edge(from, at(to, next), e)
			}
			if i < len(parts) {
				if !parts[i].must {
					a.edge(from, at(i+1, n), nil)
				}
				thing(parts[i].e, i+1)
				continue
			}
			for _, e := range more {
				thing(e, i)
			}
			if n >= lo {
				a.edge(from, final, lit(end))
			}
		}
	}
	return a.expr(), nil
}

// array returns the expression for the arrays of f.
func (s *schemaBuilder) array(f *flat) (*expr, error) {
	lo, hi := f.minItems, f.maxItems
	fixed := 0
	rest := len(f.lists) == 0 && !f.sealedItems
	for _, r := range f.lists {
		prefix, more := split2(r)
		fixed = max(fixed, len(prefix))
		rest = rest || more != nil
	}
	rest = rest || fixed == 0 && !f.sealedItems || lo > fixed
	if hi >= 0 && fixed > hi {
		fixed = hi
	}
	subs := []*expr{}
	for i := range fixed {
		c := f.element(i)
		ok, err := s.possible(c)
		if err != nil {
			return nil, err
		}
		if !ok {
			fixed, hi = i, i
			break
		}
		e, err := s.emit(c)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			subs = append(subs, comma)
		}
		subs = append(subs, e)
	}
	if rest && (hi < 0 || hi > fixed) {
		ok, err := s.possible(f.element(fixed))
		if err != nil {
			return nil, err
		}
		rest = ok
	}
	if !rest {
		hi = least(hi, fixed)
	}
	if hi >= 0 && lo > hi {
		f.why = "no array is long enough"
		return nil, nil
	}
	if f.unique && (hi < 0 || hi > 1) {
		values, err := s.finite(f.element(0))
		if err != nil {
			return nil, err
		}
		if fixed == 0 && values != nil && len(values) <= maxUnique {
			return s.set(f, values, lo, hi)
		}
		err = s.lack(f.path+"/uniqueItems", "supported for arrays without prefixItems whose items are at most %d given values", maxUnique)
		if err != nil {
			return nil, err
		}
	}
	if hi < 0 || hi > fixed {
		e, err := s.emit(f.element(fixed))
		if err != nil {
			return nil, err
		}
		left := max(lo-fixed, 0)
		room := -1
		if hi >= 0 {
			room = hi - fixed
		}
		if fixed == 0 {
			subs = append(subs, items(e, left, room))
		} else {
			subs = append(subs, repeat(seq(comma, e), left, room))
		}
	}
	return seq(lit("["), seq(subs...), lit("]")), nil
}

// split2 returns the schemas of the first items, and the schema of the
// remaining items, which may be nil.
func split2(r raw) (prefix []raw, rest *raw) {
	if at := r.v.at["prefixItems"]; at != nil {
		p := r.sub("prefixItems")
		for i := range at.items {
			prefix = append(prefix, p.item(i))
		}
	}
	key := "items"
	if at := r.v.at["items"]; at != nil && at.kind == isArray { // draft 7
		p := r.sub("items")
		for i := range at.items {
			prefix = append(prefix, p.item(i))
		}
		key = "additionalItems"
	}
	if r.v.at[key] != nil {
		sub := r.sub(key)
		rest = &sub
	}
	return prefix, rest
}

// element returns the schemas that item i must satisfy.
func (f *flat) element(i int) conj {
	var c conj
	for _, r := range f.lists {
		prefix, rest := split2(r)
		if i < len(prefix) {
			c = append(c, prefix[i])
		} else if rest != nil {
			c = append(c, *rest)
		}
	}
	return c
}

// maxUnique is the largest number of possible item values for an array with
// uniqueItems.
const maxUnique = 64

// set returns the expression for arrays with unique items. The items come from a
// finite list of values, in the order of that list.
func (s *schemaBuilder) set(f *flat, values []*value, lo, hi int) (*expr, error) {
	if lo > len(values) {
		f.why = "there are not enough different items"
		return nil, nil
	}
	var parts []part
	for _, v := range values {
		parts = append(parts, part{e: v.expr()})
	}
	if hi > len(values) {
		hi = -1
	}
	return s.sequence(f.path, "[", "]", parts, nil, lo, hi)
}

// finite returns the values that satisfy c, or nil if there may be too many.
func (s *schemaBuilder) finite(c conj) ([]*value, error) {
	flats, err := s.flatten(c)
	if err != nil {
		return nil, err
	}
	out, seen := []*value{}, map[string]bool{}
	for _, f := range flats {
		list := f.enum
		if !f.fixed {
			if f.types&^(tNull|tBool) != 0 {
				return nil, nil
			}
			list = []*value{{}, {kind: isBool, yes: true}, {kind: isBool}}
		}
		for _, v := range list {
			ok, err := s.fits(v, f)
			if err != nil {
				return nil, err
			}
			if k := v.key(); ok && !seen[k] {
				seen[k] = true
				out = append(out, v)
			}
		}
	}
	return out, nil
}
