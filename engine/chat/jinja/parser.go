package jinja

import (
	"fmt"
	"slices"
)

// Limits of the parser. Templates need far less, and the stack holds far more.
const (
	maxSource  = 4 << 20 // maximum bytes of a template
	maxNesting = 200     // maximum nesting of blocks, brackets and operators
	maxDigits  = 4300    // maximum digits of an integer, as in Python
)

// parser is a recursive-descent parser over the tokens of a template. It
// follows the grammar of Jinja2's parser, precedence included.
type parser struct {
	toks    []token
	pos     int
	depth   int
	loops   int           // number of loops around the current position, inside the innermost function
	inFor   int           // number of loops around the current position
	special []specialUses // one entry per function around the current position
}

// specialUses records which of the names caller, kwargs and varargs a
// function's body reads before it writes them.
type specialUses struct{ used, hidden map[string]bool }

func (p *parser) cur() *token { return &p.toks[p.pos] }

// look returns the token after the current one without consuming it.
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

// enter checks the depth of a recursive rule. If it returns nil, the caller must
// call leave.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.fail("nested deeper than %d", maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// body parses statements up to one of the end tags and returns that tag's name. At
// the top level, without end tags, it parses to the end of the template.
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

// block parses the rest of a statement after its head: the end of its tag, and its
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
		return nil, p.fail("'%s' is not supported, because a chat template cannot use other templates", t.text)
	}
	if len(ends) > 0 {
		return nil, p.fail("unknown tag '%s', looking for %v", t.text, ends)
	}
	return nil, p.fail("unknown tag '%s'", t.text)
}

func one(s stmt, err error) ([]stmt, error) { return []stmt{s}, err }
