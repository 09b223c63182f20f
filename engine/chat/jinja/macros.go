package jinja

import (
	"slices"
)

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

// function parses a signature and a body. If head is set, it parses the text
// between them, which belongs to the scope outside the function.
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
	clear(uses.used) // names that default values use do not count
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
