package jinja

import "slices"

// tuple parses one expression, or several separated by commas as a tuple. cond
// allows a conditional expression. ends lists the names that end the tuple.
func (p *parser) tuple(cond bool, ends []string) (expr, error) {
	return p.tupleIn(cond, ends, false)
}

func (p *parser) tupleIn(cond bool, ends []string, parens bool) (expr, error) {
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			if !p.skipOp(",") {
				break
			}
			isTuple = true
		}
		t := p.cur()
		if t.kind == tokVarEnd || t.kind == tokBlockEnd || p.atOp(")") ||
			t.kind == tokName && slices.Contains(ends, t.text) {
			break
		}
		x, err := p.expr(cond)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	switch {
	case isTuple, len(items) == 0 && parens:
		return &tupleExpr{items}, nil
	case len(items) == 0:
		return nil, p.fail("expected an expression, got %s", p.cur())
	}
	return items[0], nil
}

func (p *parser) expr(cond bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	x, err := p.or()
	for err == nil && cond && p.skipName("if") {
		c := &condExpr{yes: x}
		if c.test, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			c.no, err = p.expr(true)
		}
		x = c
	}
	return x, err
}

func (p *parser) or() (expr, error) {
	x, err := p.and()
	for err == nil && p.skipName("or") {
		var y expr
		y, err = p.and()
		x = &orExpr{x, y}
	}
	return x, err
}

func (p *parser) and() (expr, error) {
	x, err := p.not()
	for err == nil && p.skipName("and") {
		var y expr
		y, err = p.not()
		x = &andExpr{x, y}
	}
	return x, err
}

func (p *parser) not() (expr, error) {
	if !p.skipName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	x, err := p.not()
	return &notExpr{x}, err
}

var compareOps = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first}
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == tokOp && slices.Contains(compareOps, t.text):
			op = p.next().text
		case p.skipName("in"):
			op = "in"
		case p.atName("not") && p.look().is(tokName, "in"):
			p.pos += 2
			op = "not in"
		}
		if op == "" {
			break
		}
		y, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, y)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

// binary parses a left-associative chain of operators of one precedence level.
func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	x, err := operand()
	for err == nil && p.cur().kind == tokOp && slices.Contains(ops, p.cur().text) {
		op := p.next().text
		var y expr
		y, err = operand()
		x = &binExpr{op, x, y}
	}
	return x, err
}

func (p *parser) sum() (expr, error) { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() (expr, error) {
	x, err := p.product()
	if err != nil || !p.atOp("~") {
		return x, err
	}
	items := []expr{x}
	for p.skipOp("~") {
		if x, err = p.product(); err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return &concatExpr{items}, nil
}

func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var x expr
	var err error
	switch t := p.cur(); {
	case t.is(tokOp, "-"), t.is(tokOp, "+"):
		p.next()
		x, err = p.unary(false)
		x = &signExpr{t.text, x}
	default:
		x, err = p.primary()
	}
	if err == nil {
		x, err = p.postfix(x)
	}
	if err != nil || !filters {
		return x, err
	}
	return p.filterExpr(x)
}

func (p *parser) primary() (expr, error) {
	t := p.cur()
	switch t.kind {
	case tokName:
		p.next()
		switch t.text {
		case "true", "True":
			return &constExpr{Bool(true)}, nil
		case "false", "False":
			return &constExpr{Bool(false)}, nil
		case "none", "None":
			return &constExpr{None}, nil
		}
		p.load(t.text)
		return &nameExpr{t.text}, nil
	case tokString:
		text := ""
		for p.cur().kind == tokString {
			text += p.next().text
		}
		return &constExpr{Trusted(text)}, nil
	case tokNumber:
		p.next()
		return &constExpr{t.num}, nil
	case tokOp:
		switch t.text {
		case "(":
			p.next()
			x, err := p.tupleIn(true, nil, true)
			if err != nil {
				return nil, err
			}
			return x, p.expectOp(")")
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	return nil, p.fail("unexpected %s", t)
}

// items parses elements up to a closing bracket. A comma may follow the last
// element.
func (p *parser) items(end string, item func() error) error {
	p.next()
	for n := 0; !p.atOp(end); n++ {
		if n > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
			if p.atOp(end) {
				break
			}
		}
		if err := item(); err != nil {
			return err
		}
	}
	return p.expectOp(end)
}

func (p *parser) list() (expr, error) {
	l := &listExpr{}
	return l, p.items("]", func() error {
		x, err := p.expr(true)
		l.items = append(l.items, x)
		return err
	})
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{}
	return d, p.items("}", func() error {
		k, err := p.expr(true)
		if err != nil {
			return err
		}
		if err := p.expectOp(":"); err != nil {
			return err
		}
		v, err := p.expr(true)
		d.keys, d.vals = append(d.keys, k), append(d.vals, v)
		return err
	})
}

func (p *parser) postfix(x expr) (expr, error) {
	var err error
	for err == nil && p.cur().kind == tokOp {
		switch p.cur().text {
		case ".":
			p.next()
			t := p.next()
			switch t.kind {
			case tokName:
				x = &attrExpr{x, t.text}
			case tokNumber:
				if _, ok := t.num.(Float); ok {
					return nil, p.fail("expected name or number")
				}
				x = &itemExpr{x, &constExpr{t.num}}
			default:
				return nil, p.fail("expected name or number")
			}
		case "[":
			x, err = p.subscript(x)
		case "(":
			x, err = p.call(x)
		default:
			return x, nil
		}
	}
	return x, err
}

func (p *parser) filterExpr(x expr) (expr, error) {
	var err error
	for err == nil {
		switch {
		case p.atOp("|"):
			x, err = p.filters(x)
		case p.atName("is"):
			x, err = p.test(x)
		case p.atOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
	}
	return x, err
}

func (p *parser) subscript(obj expr) (expr, error) {
	p.next()
	var items []expr
	for !p.atOp("]") {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		x, err := p.subscribed(obj)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	p.next()
	if len(items) == 1 {
		if s, ok := items[0].(*sliceExpr); ok && s.obj == obj {
			return s, nil
		}
		return &itemExpr{obj, items[0]}, nil
	}
	for _, x := range items {
		if s, ok := x.(*sliceExpr); ok && s.obj == obj {
			return nil, p.fail("a slice cannot be one of several subscripts")
		}
	}
	return &itemExpr{obj, &tupleExpr{items}}, nil
}

// subscribed parses the index or slice in the brackets after obj.
func (p *parser) subscribed(obj expr) (expr, error) {
	var lo, hi, step expr
	var err error
	bound := func() (expr, error) {
		if p.atOp(":") || p.atOp("]") || p.atOp(",") {
			return nil, nil
		}
		return p.expr(true)
	}
	if !p.atOp(":") {
		if lo, err = p.expr(true); err != nil || !p.atOp(":") {
			return lo, err
		}
	}
	p.next()
	if hi, err = bound(); err != nil {
		return nil, err
	}
	if p.skipOp(":") {
		if step, err = bound(); err != nil {
			return nil, err
		}
	}
	return &sliceExpr{obj, lo, hi, step}, nil
}

func (p *parser) call(fn expr) (expr, error) {
	args, err := p.callArgs()
	return &callExpr{fn, args}, err
}

func (p *parser) callArgs() (callArgs, error) {
	var a callArgs
	err := p.items(")", func() error {
		var err error
		invalid := false
		switch {
		case p.atOp("*"):
			invalid = a.dynPos != nil || a.dynNamed != nil
			p.next()
			a.dynPos, err = p.expr(true)
		case p.atOp("**"):
			invalid = a.dynNamed != nil
			p.next()
			a.dynNamed, err = p.expr(true)
		case p.cur().kind == tokName && p.look().is(tokOp, "="):
			name := p.next().text
			p.next()
			invalid = a.dynNamed != nil || slices.Contains(a.kwNames, name)
			var x expr
			x, err = p.expr(true)
			a.kwNames, a.kw = append(a.kwNames, name), append(a.kw, x)
		default:
			invalid = a.dynPos != nil || a.dynNamed != nil || len(a.kw) > 0
			var x expr
			x, err = p.expr(true)
			a.pos = append(a.pos, x)
		}
		if err == nil && invalid {
			err = p.fail("invalid syntax for function call expression")
		}
		return err
	})
	return a, err
}

// filters parses a chain of filters, each after a bar.
func (p *parser) filters(x expr) (expr, error) {
	var err error
	for err == nil && p.skipOp("|") {
		x, err = p.firstFilter(x)
	}
	return x, err
}

func (p *parser) firstFilter(x expr) (expr, error) {
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{obj: x, name: name}
	if p.atOp("(") {
		f.args, err = p.callArgs()
	}
	return f, err
}

func (p *parser) dotted() (string, error) {
	name, err := p.expectName()
	for err == nil && p.skipOp(".") {
		var part string
		part, err = p.expectName()
		name += "." + part
	}
	return name, err
}

func (p *parser) test(x expr) (expr, error) {
	p.next()
	negated := p.skipName("not")
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	t := &testExpr{obj: x, name: name}
	switch c := p.cur(); {
	case p.atOp("("):
		t.args, err = p.callArgs()
	case c.kind == tokName && c.text != "else" && c.text != "or" && c.text != "and",
		c.kind == tokString, c.kind == tokNumber, p.atOp("["), p.atOp("{"):
		if c.is(tokName, "is") {
			return nil, p.fail("you cannot chain multiple tests with is")
		}
		var arg expr
		if arg, err = p.primary(); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.pos = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{t}, nil
	}
	return t, nil
}
