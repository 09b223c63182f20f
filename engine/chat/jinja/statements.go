package jinja

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

// assignTarget parses the left side of an assignment. attrs allows ns.x, and end is
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

// store records that a name is written.
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

// load records that a name is read.
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
