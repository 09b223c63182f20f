package jinja

import (
	"fmt"
	"slices"
)

// Bounds of the parser; far beyond what templates need, well inside what the
// stack holds.
const (
	maxSource  = 4 << 20 // bytes of a template
	maxNesting = 200     // blocks, brackets and operators inside one another
	maxDigits  = 4300    // of an integer, as in Python
)

// parser is a recursive-descent parser over the tokens of a template. It
// follows the grammar of Jinja2's parser, precedence included.
type parser struct {
	toks    []token
	pos     int
	depth   int
	loops   int           // loops around this point inside the innermost function
	inFor   int           // loops around this point
	special []specialUses // one a function around this point
}

// specialUses tracks which of caller, kwargs and varargs a function's body
// reads before it writes them.
type specialUses struct{ used, hidden map[string]bool }

func (p *parser) cur() *token { return &p.toks[p.pos] }

// look returns the token after the current one.
func (p *parser) look() *token { return &p.toks[min(p.pos+1, len(p.toks)-1)] }

func (p *parser) next() *token {
	t := p.cur()
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) fail(format string, args ...any) error {
	return atLine(fail(ErrSyntax, format, args...), p.cur().line)
}

func (t *token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

func (p *parser) atOp(op string) bool     { return p.cur().is(tokOp, op) }
func (p *parser) atName(name string) bool { return p.cur().is(tokName, name) }

func (p *parser) skipOp(op string) bool {
	if p.atOp(op) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.atName(name) {
		p.pos++
		return true
	}
	return false
}

func (t *token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokData:
		return "template data"
	case tokVarBegin:
		return "begin of print statement"
	case tokVarEnd:
		return "end of print statement"
	case tokBlockBegin:
		return "begin of statement block"
	case tokBlockEnd:
		return "end of statement block"
	}
	return fmt.Sprintf("'%s'", t.text)
}

func (p *parser) expect(kind tokenKind, text, what string) (*token, error) {
	t := p.cur()
	if t.kind != kind || text != "" && t.text != text {
		return nil, p.fail("expected %s, got %s", what, t)
	}
	return p.next(), nil
}

func (p *parser) expectOp(op string) error {
	_, err := p.expect(tokOp, op, "'"+op+"'")
	return err
}

func (p *parser) expectName() (string, error) {
	t, err := p.expect(tokName, "", "a name")
	if err != nil {
		return "", err
	}
	return t.text, nil
}

// enter guards a recursive rule; leave must follow if it returns nil.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.fail("nested deeper than %d", maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// body parses statements up to one of the end tags, whose name it returns;
// at the top level, without end tags, up to the end of the template.
func (p *parser) body(ends ...string) ([]stmt, string, error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer p.leave()
	var out []stmt
	for {
		t := p.next()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				return nil, "", p.fail("unexpected end of template, looking for %v", ends)
			}
			return out, "", nil
		case tokData:
			out = append(out, &dataStmt{line(t.line), t.text})
		case tokVarBegin:
			x, err := p.tuple(true, nil)
			if err != nil {
				return nil, "", err
			}
			if _, err := p.expect(tokVarEnd, "", "end of print statement"); err != nil {
				return nil, "", err
			}
			out = append(out, &printStmt{line(t.line), x})
		case tokBlockBegin:
			if p.cur().kind == tokName && slices.Contains(ends, p.cur().text) {
				return out, p.next().text, nil
			}
			s, err := p.statement(ends)
			if err != nil {
				return nil, "", err
			}
			out = append(out, s...)
			if err := p.blockEnd(); err != nil {
				return nil, "", err
			}
		default:
			return nil, "", p.fail("unexpected %s", t)
		}
	}
}

func (p *parser) blockEnd() error {
	_, err := p.expect(tokBlockEnd, "", "end of statement block")
	return err
}

// block parses what follows a statement's head: the end of its tag and its
// body up to one of the end tags.
func (p *parser) block(ends ...string) ([]stmt, string, error) {
	p.skipOp(":")
	if err := p.blockEnd(); err != nil {
		return nil, "", err
	}
	return p.body(ends...)
}

func (p *parser) statement(ends []string) ([]stmt, error) {
	t, err := p.expect(tokName, "", "a tag's name")
	if err != nil {
		return nil, err
	}
	at := line(t.line)
	switch t.text {
	case "if":
		return one(p.ifBlock(at))
	case "for":
		return one(p.forBlock(at))
	case "set":
		return one(p.set(at))
	case "macro":
		return one(p.macro(at))
	case "call":
		return one(p.callBlock(at))
	case "filter":
		return one(p.filterBlock(at))
	case "with":
		return one(p.with(at))
	case "block":
		return one(p.namedBlock(at))
	case "generation":
		return one(p.generation(at))
	case "break", "continue":
		return one(p.flow(at, t.text))
	case "do":
		x, err := p.tuple(true, nil)
		return []stmt{&doStmt{at, x}}, err
	case "print":
		return p.print(at)
	case "extends", "include", "import", "from":
		return nil, p.fail("'%s' is not supported: a chat template stands alone", t.text)
	}
	if len(ends) > 0 {
		return nil, p.fail("unknown tag '%s', looking for %v", t.text, ends)
	}
	return nil, p.fail("unknown tag '%s'", t.text)
}

func one(s stmt, err error) ([]stmt, error) { return []stmt{s}, err }

func (p *parser) ifBlock(at line) (stmt, error) {
	s := &ifStmt{line: at}
	for {
		test, err := p.tuple(false, nil)
		if err != nil {
			return nil, err
		}
		body, end, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.tests = append(s.tests, test)
		s.bodies = append(s.bodies, body)
		if end == "elif" {
			continue
		}
		if end == "else" {
			s.other, _, err = p.block("endif")
		}
		return s, err
	}
}

func (p *parser) forBlock(at line) (stmt, error) {
	s := &forStmt{line: at}
	p.inFor++
	defer func() { p.inFor-- }()
	var err error
	if s.target, err = p.assignTarget(false, "in"); err != nil {
		return nil, err
	}
	if _, err := p.expect(tokName, "in", "'in'"); err != nil {
		return nil, err
	}
	if s.iter, err = p.tuple(false, []string{"recursive"}); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.test, err = p.expr(true); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skipName("recursive")
	p.loops++
	body, end, err := p.block("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = body
	if end == "else" {
		s.other, _, err = p.block("endfor")
	}
	return s, err
}

func (p *parser) flow(at line, name string) (stmt, error) {
	if p.loops == 0 {
		return nil, p.fail("'%s' outside loop", name)
	}
	if name == "break" {
		return &flowStmt{at, flowBreak}, nil
	}
	return &flowStmt{at, flowContinue}, nil
}

func (p *parser) set(at line) (stmt, error) {
	to, err := p.assignTarget(true, "")
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		x, err := p.tuple(true, nil)
		return &setStmt{at, to, x}, err
	}
	s := &setBlockStmt{line: at, target: to}
	if p.atOp("|") {
		if s.filter, err = p.filters(nil); err != nil {
			return nil, err
		}
	}
	s.body, _, err = p.block("endset")
	return s, err
}

// assignTarget parses what an assignment writes to. attrs allows ns.x; end is
// the name that ends a tuple without parentheses.
func (p *parser) assignTarget(attrs bool, end string) (target, error) {
	var out []target
	isTuple := false
	for {
		if len(out) > 0 {
			if !p.skipOp(",") {
				break
			}
			isTuple = true
		}
		t := p.cur()
		if t.kind == tokVarEnd || t.kind == tokBlockEnd || p.atOp(")") || end != "" && p.atName(end) {
			break
		}
		one, err := p.oneTarget(attrs)
		if err != nil {
			return target{}, err
		}
		out = append(out, one)
	}
	switch {
	case len(out) == 0:
		return target{}, p.fail("expected a name to assign to, got %s", p.cur())
	case isTuple:
		return target{tuple: out}, nil
	}
	return out[0], nil
}

func (p *parser) oneTarget(attrs bool) (target, error) {
	if p.skipOp("(") {
		if err := p.enter(); err != nil {
			return target{}, err
		}
		defer p.leave()
		inner, err := p.assignTarget(attrs, "")
		if err != nil {
			return target{}, err
		}
		return inner, p.expectOp(")")
	}
	name, err := p.expectName()
	if err != nil {
		return target{}, err
	}
	if attrs && p.skipOp(".") {
		p.load(name)
		attr, err := p.expectName()
		return target{name: name, attr: attr}, err
	}
	return target{name: name}, p.store(name)
}

// store notes that a name is written.
func (p *parser) store(name string) error {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return p.fail("can't assign to '%s'", name)
	case "loop":
		if p.inFor > 0 {
			return p.fail("can't assign to special loop variable in a for loop")
		}
	}
	for _, u := range p.special {
		u.hidden[name] = true
	}
	return nil
}

// load notes that a name is read.
func (p *parser) load(name string) {
	for _, u := range p.special {
		if !u.hidden[name] {
			u.used[name] = true
		}
	}
}

func (p *parser) with(at line) (stmt, error) {
	s := &withStmt{line: at}
	for p.cur().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		to, err := p.assignTarget(false, "")
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		x, err := p.expr(true)
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, to), append(s.values, x)
	}
	var err error
	s.body, _, err = p.block("endwith")
	return s, err
}

func (p *parser) filterBlock(at line) (stmt, error) {
	f, err := p.firstFilter(nil)
	if err != nil {
		return nil, err
	}
	if f, err = p.filters(f); err != nil {
		return nil, err
	}
	body, _, err := p.block("endfilter")
	return &filterStmt{line: at, filter: f, body: body}, err
}

func (p *parser) namedBlock(at line) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	p.skipName("scoped")
	loops := p.loops
	p.loops = 0
	body, _, err := p.block("endblock")
	p.loops = loops
	p.skipName(name)
	return &scopeStmt{line: at, body: body}, err
}

func (p *parser) generation(at line) (stmt, error) {
	def := &macroDef{}
	return &generationStmt{at, def}, p.function(def, "endgeneration", func() error { return nil })
}

func (p *parser) print(at line) ([]stmt, error) {
	var out []stmt
	for p.cur().kind != tokBlockEnd {
		if len(out) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		x, err := p.expr(true)
		if err != nil {
			return nil, err
		}
		out = append(out, &printStmt{at, x})
	}
	return out, nil
}

func (p *parser) macro(at line) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	if err := p.store(name); err != nil {
		return nil, err
	}
	def := &macroDef{name: name}
	if err := p.function(def, "endmacro", nil); err != nil {
		return nil, err
	}
	return &macroStmt{at, def}, nil
}

func (p *parser) callBlock(at line) (stmt, error) {
	def := &macroDef{}
	s := &callStmt{line: at, def: def}
	head := func() error {
		x, err := p.expr(true)
		if err != nil {
			return err
		}
		call, ok := x.(*callExpr)
		if !ok {
			return p.fail("expected call")
		}
		s.call = call
		return nil
	}
	if err := p.function(def, "endcall", head); err != nil {
		return nil, err
	}
	return s, nil
}

// function parses a signature and body; head, if set, parses what stands
// between them, outside the function.
func (p *parser) function(def *macroDef, end string, head func() error) error {
	uses := specialUses{map[string]bool{}, map[string]bool{}}
	p.special = append(p.special, uses)
	defer func() { p.special = p.special[:len(p.special)-1] }()
	if head == nil || p.atOp("(") {
		if err := p.signature(def); err != nil {
			return err
		}
	}
	if head != nil {
		p.special = p.special[:len(p.special)-1]
		err := head()
		p.special = append(p.special, uses)
		if err != nil {
			return err
		}
	}
	clear(uses.used) // defaults do not count
	clear(uses.hidden)
	loops := p.loops
	p.loops = 0
	body, _, err := p.block(end)
	p.loops = loops
	if err != nil {
		return err
	}
	def.body = body
	def.kwargs = uses.used["kwargs"] && !slices.Contains(def.params, "kwargs")
	def.varargs = uses.used["varargs"] && !slices.Contains(def.params, "varargs")
	def.caller = uses.used["caller"]
	if i := slices.Index(def.params, "caller"); def.caller && i >= 0 && i < len(def.params)-len(def.defaults) {
		return p.fail("the special 'caller' argument must be omitted or be given a default")
	}
	return nil
}

func (p *parser) signature(def *macroDef) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.atOp(")") {
		if len(def.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		if slices.Contains(def.params, name) {
			return p.fail("duplicate argument '%s'", name)
		}
		if err := p.store(name); err != nil {
			return err
		}
		def.params = append(def.params, name)
		switch {
		case p.skipOp("="):
			x, err := p.expr(true)
			if err != nil {
				return err
			}
			def.defaults = append(def.defaults, x)
		case len(def.defaults) > 0:
			return p.fail("non-default argument follows default argument")
		}
	}
	return p.expectOp(")")
}
