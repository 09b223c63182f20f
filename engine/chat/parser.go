package chat

import "strings"

// DeltaKind names the part of the message that a Delta extends.
type DeltaKind uint8

// The kinds of deltas.
const (
	Content   DeltaKind = iota // Text continues the answer
	Reasoning                  // Text continues the model's reasoning
	CallStart                  // a tool call begins; Index, ID and Name are set
	CallArgs                   // Text continues the arguments of call Index
)

// Delta is a piece of a message.
type Delta struct {
	Kind     DeltaKind
	Text     string
	Index    int
	ID, Name string
}

// Call is a complete tool call.
type Call struct {
	ID, Name  string
	Arguments string // a JSON object
}

// ParserOptions configure a Parser.
type ParserOptions struct {
	Kind  ParserKind
	Tags  Tags
	Open  bool   // whether the prompt ended inside reasoning
	Tools *List  // offered tools; without tools, no text is parsed as a call
	Loose bool   // whether calls in the generic form are also accepted
	Form  bool   // whether the content is a JSON document, in which tags and calls are not recognised
	Seed  string // seed that makes the ids of calls differ between answers
}

// maxFailed limits failed attempts to parse a call, so that the work stays linear
// in the answer's length.
const maxFailed = 256

// Parser splits an answer into content, reasoning and tool calls. Text arrives in
// chunks of any size, which do not affect the result. Control tokens are included
// as text, and end-of-generation tokens are left out. Text that may be part of a
// marker or call is held back until the parser can decide. A Parser handles one
// answer.
type Parser struct {
	o       ParserOptions
	schemas map[string]*Dict                 // parameter schemas by function
	step    func(p *Parser, final bool) bool // parses a syntax that needs more than markers; nil for other syntaxes
	syntax  view
	rest    string // text that is not decided yet
	new     []byte // text received after rest
	ending  bool   // whether new contains a character that may end a call
	out     []Delta

	state   state
	from    state // in state inCall, the state in which the call began
	opener  mark  // in state inCall, the marker that opened the call
	held    heldCalls
	spaces  []byte // white space held back until the next text decides its place
	failed  int    // number of texts that looked like calls but were not
	started bool   // whether content or a call was seen
	thought bool   // whether reasoning was seen
	fresh   bool   // whether reasoning has begun but has no text yet
	early   bool   // whether a call ended the reasoning, so that the closing tag may still follow
	stray   bool   // whether a closing tag was removed from the content
	trim    bool   // whether white space at this position separates parts and is dropped
	calls   int
	harmony harmonyState
}

type state uint8

const (
	inContent state = iota
	inReasoning
	inCall
	inHeld // state after a call inside reasoning
)

// Parser returns a parser for the answer to the prompt. seed makes the ids of calls
// differ between answers.
func (p *Prompt) Parser(seed string) *Parser {
	return NewParser(ParserOptions{Kind: p.Kind, Tags: p.Tags, Open: p.Open, Tools: p.tools, Loose: p.inlined, Form: p.Form, Seed: seed})
}

// NewParser returns a parser for one answer. It panics if the kind is not
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

// Push adds the next chunk of the answer and returns everything that can be
// decided.
func (p *Parser) Push(text string) []Delta {
	p.new = append(p.new, text...)
	if (p.state == inCall || p.state == inHeld) && len(p.rest) > 256 {
		// a long call is parsed again only after it has grown by an eighth, so that
		// the work stays linear in its length
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

// Thinking reports whether the answer is inside reasoning.
func (p *Parser) Thinking() bool {
	switch p.state {
	case inReasoning:
		return p.o.Kind != Harmony || p.harmony.mode == inBody
	case inCall:
		return p.from == inReasoning && !p.opener.control
	}
	return p.state == inHeld
}

// Held returns the number of bytes held back until a marker or call is complete.
func (p *Parser) Held() int { return len(p.rest) + len(p.new) }

// Parse splits a complete answer.
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
