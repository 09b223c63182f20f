package chat

import "strings"

// DeltaKind says what a Delta adds to.
type DeltaKind uint8

// The kinds of deltas.
const (
	Content   DeltaKind = iota // Text is a piece of the answer
	Reasoning                  // Text is a piece of the model's thinking
	CallStart                  // a tool call with Index, ID and Name begins
	CallArgs                   // Text is a piece of the arguments of call Index
)

// Delta is a piece of a message.
type Delta struct {
	Kind     DeltaKind
	Text     string
	Index    int
	ID, Name string
}

// Call is a whole tool call.
type Call struct {
	ID, Name  string
	Arguments string // a JSON object
}

// ParserOptions configure a Parser.
type ParserOptions struct {
	Kind  ParserKind
	Tags  Tags
	Open  bool   // the prompt ended inside reasoning
	Tools *List  // the tools on offer; without any, nothing is taken for a call
	Loose bool   // look for calls in the generic form too
	Form  bool   // the content is a JSON document: no tag or call counts in it
	Seed  string // makes the ids of calls differ between answers
}

// maxFailed bounds how often a parser looks for calls in vain, so
// that the work does not grow with the square of an answer's length.
const maxFailed = 256

// Parser takes an answer apart: content, reasoning, tool calls. Text comes in
// pieces of any size, control tokens written out, end-of-generation tokens left
// out; the result does not depend on the sizes. What may be part of a marker or
// of a call is held back until that is clear. A Parser is for one answer.
type Parser struct {
	o       ParserOptions
	schemas map[string]*Dict                 // parameters by function
	step    func(p *Parser, final bool) bool // reads a syntax that is more than markers; nil without one
	syntax  view
	rest    string // not yet decided
	new     []byte // came after rest
	ending  bool   // new has a character that may end a call
	out     []Delta

	state   state
	from    state // state inCall: where the call began
	opener  mark  // state inCall: what opened it
	held    heldCalls
	spaces  []byte // white space whose place is not yet clear
	failed  int    // number of texts that looked like calls but were not
	started bool   // there was content or a call
	thought bool   // there was reasoning
	fresh   bool   // reasoning has begun and nothing was said
	early   bool   // a call ended the reasoning, whose closing tag may follow
	stray   bool   // a closing tag was dropped from the content
	trim    bool   // white space at this point is between parts and dropped
	calls   int
	harmony harmonyState
}

type state uint8

const (
	inContent state = iota
	inReasoning
	inCall
	inHeld // behind a call inside reasoning
)

// Parser returns a parser for the answer to a prompt. seed makes the ids of
// calls differ between answers.
func (p *Prompt) Parser(seed string) *Parser {
	return NewParser(ParserOptions{Kind: p.Kind, Tags: p.Tags, Open: p.Open, Tools: p.tools, Loose: p.inlined, Form: p.Form, Seed: seed})
}

// NewParser returns a parser for one answer. It panics on a kind that is not
// registered.
func NewParser(o ParserOptions) *Parser {
	p := &Parser{o: o, schemas: map[string]*Dict{}}
	if o.Tools != nil {
		for i := range o.Tools.Len() {
			if t, ok := o.Tools.At(i).(*Dict); ok {
				fn := function(t)
				if name, ok := text(lookup(fn, "name")); ok {
					params, _ := lookup(fn, "parameters").(*Dict)
					p.schemas[name] = params
				}
			}
		}
	}
	s, err := syntaxOf(o.Kind)
	if err != nil {
		panic(err)
	}
	p.step, p.syntax = s.Step, viewOf(s, o, len(p.schemas) > 0)
	if o.Open && o.Tags.Close != "" {
		p.state, p.trim, p.fresh = inReasoning, true, true
	}
	return p
}

// Push takes the next piece of the answer and returns what is now clear.
func (p *Parser) Push(text string) []Delta {
	p.new = append(p.new, text...)
	if (p.state == inCall || p.state == inHeld) && len(p.rest) > 256 {
		// a long call is looked at again when it has grown by an eighth, so that
		// the work does not grow with the square of its length
		p.ending = p.ending || strings.ContainsAny(text, "}])>`;\n")
		if !p.ending || len(p.rest) > 4096 && len(p.new) < len(p.rest)/8 {
			return nil
		}
	}
	return p.work(false)
}

// Finish ends the answer and returns what was held back.
func (p *Parser) Finish() []Delta { return p.work(true) }

// Called reports whether a tool call was seen.
func (p *Parser) Called() bool { return p.calls > 0 }

// Thinking reports whether the answer stands inside reasoning.
func (p *Parser) Thinking() bool {
	switch p.state {
	case inReasoning:
		return p.o.Kind != Harmony || p.harmony.mode == inBody
	case inCall:
		return p.from == inReasoning && !p.opener.control
	}
	return p.state == inHeld
}

// Held is the number of bytes that wait for the rest of a marker or call.
func (p *Parser) Held() int { return len(p.rest) + len(p.new) }

// Parse takes a whole answer apart.
func Parse(o ParserOptions, answer string) (content, reasoning string, calls []Call) {
	p := NewParser(o)
	for _, d := range append(p.Push(answer), p.Finish()...) {
		switch d.Kind {
		case Content:
			content += d.Text
		case Reasoning:
			reasoning += d.Text
		case CallStart:
			calls = append(calls, Call{ID: d.ID, Name: d.Name})
		case CallArgs:
			calls[d.Index].Arguments += d.Text
		}
	}
	return content, reasoning, calls
}

func (p *Parser) work(final bool) []Delta {
	p.rest += string(p.new)
	p.new, p.ending = p.new[:0], false
	for p.advance(final) {
	}
	if final {
		p.flushSpaces()
	}
	out := p.out
	p.out = nil
	return out
}
