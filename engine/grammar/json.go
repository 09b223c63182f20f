package grammar

// jsonRules are the rules that all schemas of a builder share.
type jsonRules struct {
	value, object, array, text, key int
}

// maxDigits is the maximum number of digits before a number's decimal point.
const maxDigits = 16

var (
	blank = optional(lit(" "))
	colon = seq(lit(":"), blank)
	comma = seq(lit(","), blank)
	digit = class(span{'0', '9'})
	quote = lit(`"`)

	hex = class(span{'0', '9'}, span{'A', 'F'}, span{'a', 'f'})
	// escapeUnit is an escape sequence for one code point that is not a surrogate
	escapeUnit = seq(lit(`\`), alt(
		class(span{'"', '"'}, span{'/', '/'}, span{'\\', '\\'}, span{'b', 'b'}, span{'f', 'f'}, span{'n', 'n'}, span{'r', 'r'}, span{'t', 't'}),
		seq(lit("u"), alt(
			seq(class(span{'0', '9'}, span{'A', 'C'}, span{'E', 'F'}, span{'a', 'c'}, span{'e', 'f'}), hex, hex, hex),
			seq(class(span{'D', 'D'}, span{'d', 'd'}), class(span{'0', '7'}), hex, hex),
		)),
	))
	plain = invert([]span{{0, 0x1f}, {'"', '"'}, {'\\', '\\'}})
	// textUnit is one code point of a string
	textUnit = alt(class(plain...), escapeUnit)
	// keyUnit is one code point of a free key. It can be written in only one way,
	// so that equal keys are equal bytes
	keyUnit = alt(class(plain...), seq(lit(`\`), class(span{'"', '"'}, span{'\\', '\\'}, span{'b', 'b'}, span{'f', 'f'}, span{'n', 'n'}, span{'r', 'r'}, span{'t', 't'})))

	whole   = alt(lit("0"), seq(class(span{'1', '9'}), repeat(digit, 0, maxDigits-1)))
	integer = alt(lit("0"), seq(optional(lit("-")), class(span{'1', '9'}), repeat(digit, 0, maxDigits-1)))
	number  = seq(
		optional(lit("-")), whole, optional(seq(lit("."), repeat(digit, 1, maxDigits))),
		optional(seq(class(span{'E', 'E'}, span{'e', 'e'}), optional(class(span{'+', '+'}, span{'-', '-'})), repeat(digit, 1, 2))),
	)
	boolean = alt(lit("true"), lit("false"))
)

// JSON returns the grammar of one JSON object, as OpenAI's json_object requires. It
// allows at most one blank after ":" and ",", no line breaks, and no key twice.
func JSON() *Grammar {
	b := NewBuilder()
	root := b.jsonRules().object
	return &Grammar{rules: b.rules, root: root, json: true}
}

// jsonRules adds the shared rules on first use. The rule limit always leaves room
// for them.
func (b *Builder) jsonRules() *jsonRules {
	if b.json != nil {
		return b.json
	}
	first := len(b.rules)
	r := &jsonRules{first, first + 1, first + 2, first + 3, first + 4}
	b.json = r
	value := ref(r.value)
	b.rules = append(b.rules,
		rule{name: "json value", body: alt(ref(r.object), ref(r.array), ref(r.text), number, boolean, lit("null"))},
		rule{name: "json object", body: members(seq(ref(r.key), colon, value))},
		rule{name: "json array", body: list(value, 0, -1)},
		rule{name: "json string", body: seq(quote, repeat(textUnit, 0, -1), quote)},
		rule{name: "json key", body: seq(quote, repeat(keyUnit, 0, -1), quote), key: true},
	)
	return r
}

// members returns the expression for an object with any number of members.
func members(member *expr) *expr {
	a := newAuto(4)
	a.edge(0, 1, lit("{"))
	a.edge(1, 2, member)
	a.edge(2, 2, seq(comma, member))
	a.edge(1, 3, lit("}"))
	a.edge(2, 3, lit("}"))
	a.final[3] = true
	return a.expr()
}

// list returns the expression for an array of lo to hi items. If hi is -1, there is
// no upper limit.
func list(item *expr, lo, hi int) *expr {
	return seq(lit("["), items(item, lo, hi), lit("]"))
}

func items(item *expr, lo, hi int) *expr {
	if hi == 0 {
		return seq()
	}
	more := hi - 1
	if hi < 0 {
		more = -1
	}
	some := seq(item, repeat(seq(comma, item), max(lo-1, 0), more))
	if lo == 0 {
		return optional(some)
	}
	return some
}

// quoted returns s as a JSON string with only the necessary escapes.
func quoted(s string) string {
	const digits = "0123456789abcdef"
	out := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r == '\b':
			out = append(out, `\b`...)
		case r == '\f':
			out = append(out, `\f`...)
		case r < 0x20:
			out = append(out, `\u00`...)
			out = append(out, digits[r>>4], digits[r&15])
		default:
			out = append(out, string(r)...)
		}
	}
	return string(append(out, '"'))
}

// inText returns the expression for one code point of a set as it is written inside
// a JSON string. canonical allows only the form that quoted uses.
func inText(set []span, canonical bool) *expr {
	var alts []*expr
	if bare := intersect(set, plain); len(bare) > 0 {
		alts = append(alts, class(bare...))
	}
	var short []span    // characters after a backslash
	var coded [2][]span // last digits of \u000x and \u001x
	for _, s := range set {
		for r := s.lo; r <= min(s.hi, '\\'); r++ {
			if r == '/' && !canonical {
				short = append(short, span{r, r})
			}
			if r >= 0x20 && r != '"' && r != '\\' {
				continue
			}
			q := quoted(string(r))
			if last := rune(q[len(q)-2]); len(q) == 4 {
				short = append(short, span{last, last})
			} else {
				coded[r>>4] = append(coded[r>>4], span{last, last})
			}
		}
	}
	if short != nil {
		alts = append(alts, seq(lit(`\`), class(normal(short)...)))
	}
	for i, last := range coded {
		if last != nil {
			alts = append(alts, seq(lit([]string{`\u000`, `\u001`}[i]), class(normal(last)...)))
		}
	}
	return alt(alts...)
}
