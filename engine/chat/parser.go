package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
	Seed  string // makes the ids of calls differ between answers
}

// maxFailed bounds how often a parser looks for calls where there are none, so
// that the work does not grow with the square of an answer's length.
const maxFailed = 256

// Parser takes an answer apart: content, reasoning, tool calls. Text comes in
// pieces of any size, control tokens written out, end-of-generation tokens left
// out; the result does not depend on the sizes. What may be part of a marker or
// of a call is held back until that is clear. A Parser is for one answer.
type Parser struct {
	o       ParserOptions
	schemas map[string]*Dict                 // parameters by function
	step    func(p *Parser, final bool) bool // of a syntax that is more than markers; nil: none
	syntax  view
	rest    string // not yet decided
	new     []byte // came after rest
	ending  bool   // new has a character that may end a call
	out     []Delta

	state   state
	region  reader // state inCall: reads what follows opener
	opener  string
	spaces  []byte // white space whose place is not yet clear
	failed  int    // what looked like calls and was none
	started bool   // there was content or a call
	thought bool   // there was reasoning
	trim    bool   // white space at this point is between parts and dropped
	calls   int
	harmony harmonyState
}

type state uint8

const (
	inContent state = iota
	inReasoning
	inCall
)

// Parser returns a parser for the answer to a prompt. seed makes the ids of
// calls differ between answers.
func (p *Prompt) Parser(seed string) *Parser {
	return NewParser(ParserOptions{Kind: p.Kind, Tags: p.Tags, Open: p.Open, Tools: p.tools, Loose: p.inlined, Seed: seed})
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
		p.state, p.trim = inReasoning, true
	}
	return p
}

// Push takes the next piece of the answer and returns what is now clear.
func (p *Parser) Push(text string) []Delta {
	p.new = append(p.new, text...)
	if p.state == inCall {
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
	return p.state == inReasoning && (p.o.Kind != Harmony || p.harmony.mode == inBody)
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

// advance does one piece of work; false if more text is needed.
func (p *Parser) advance(final bool) bool {
	if p.step != nil {
		return p.step(p, final)
	}
	switch p.state {
	case inReasoning:
		return p.reasoningStep(final)
	case inCall:
		return p.callStep(final)
	}
	if !p.started && p.syntax.bare != nil {
		if decided, again := p.bareStep(final); !decided {
			return again
		}
	}
	i, m := firstMark(p.rest, p.syntax.marks)
	if m == nil {
		p.emitUpTo(Content, len(p.rest)-p.keep(final, p.syntax.marks))
		return false
	}
	p.emitUpTo(Content, i)
	if !final && longerMark(p.rest, p.syntax.marks) {
		return false
	}
	p.rest = p.rest[len(m.text):]
	switch {
	case m.reasoning:
		p.dropSpaces()
		p.state = inReasoning
	case m.read != nil:
		p.state, p.region, p.opener = inCall, m.read, m.text
	default: // a marker without a meaning
		p.dropSpaces()
	}
	return true
}

// bareStep looks at the start of an answer for a call that no marker opens.
// decided is false while that is not clear; again asks for another step.
func (p *Parser) bareStep(final bool) (decided, again bool) {
	s := p.whole(final)
	p.emitUpTo(Content, len(s)-len(strings.TrimLeftFunc(s, unicode.IsSpace)))
	if s = p.whole(final); s == "" && !final {
		return false, false
	}
	const enough = 4096 // bytes to tell a call by
	short, settled := s, final
	if len(s) > enough {
		short, settled = s[:enough], true
	}
	switch p.syntax.bare(short, settled) {
	case maybe:
		return false, false
	case yes:
		p.opener, p.state, p.region = "", inCall, p.syntax.read
		return false, true
	}
	return true, false
}

func (p *Parser) reasoningStep(final bool) bool {
	marks := []mark{{text: p.o.Tags.Close}}
	i, m := firstMark(p.rest, marks)
	if m == nil {
		p.emitUpTo(Reasoning, len(p.rest)-p.keep(final, marks))
		return false
	}
	p.emitUpTo(Reasoning, i)
	p.rest = p.rest[len(m.text):]
	p.dropSpaces()
	p.state = inContent
	return true
}

// callStep reads a call. What is no call goes back to the content.
func (p *Parser) callStep(final bool) bool {
	c := &cursor{s: p.whole(final), final: final, p: p}
	calls, err := p.region(c)
	if err != nil && final {
		if whole := p.salvage(c.s); len(whole) > 0 {
			calls, err, c.i = whole, nil, len(c.s)
		}
	}
	switch {
	case errors.Is(err, errMore) && !final:
		return false
	case err != nil || len(calls) == 0:
		p.state = inContent
		opener := p.opener
		if opener == "" {
			// the answer began like a call: its first character settles that it is none
			opener, p.rest = p.rest[:1], p.rest[1:]
		}
		p.emit(Content, opener)
		if p.failed++; p.failed == maxFailed {
			p.syntax.marks = slices.DeleteFunc(p.syntax.marks, func(m mark) bool { return m.read != nil })
		}
		return true
	}
	p.dropSpaces()
	p.rest = p.rest[c.i:]
	p.state = inContent
	p.started = true
	for _, call := range calls {
		p.emitCall(call)
	}
	return true
}

// salvage reads the whole calls of a JSON list that the answer's end broke off:
// the last one, which is not whole, is nobody's content.
func (p *Parser) salvage(s string) []Call {
	if _, err := p.region(&cursor{s: s, p: p}); !errors.Is(err, errMore) {
		return nil // it is wrong, not short
	}
	var open []byte        // what closes the brackets that are open
	const most = len(`{[`) // of them, around a whole call
	end, closers := 0, ""
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			n := stringEnd(s[i:])
			if n < 0 {
				i = len(s)
				break
			}
			i += n - 1
		case c == '{' || c == '[':
			open = append(open, c+2) // in ASCII ] and } are two behind
		case (c == '}' || c == ']') && len(open) > 0:
			if open = open[:len(open)-1]; len(open) > 0 && len(open) <= most {
				slices.Reverse(open)
				end, closers = i+1, string(open)
				slices.Reverse(open)
			}
		}
	}
	if end == 0 {
		return nil
	}
	calls, err := p.region(&cursor{s: s[:end] + closers, final: true, p: p})
	foreign := func(c Call) bool { _, ok := p.schemas[c.Name]; return !ok }
	if err != nil || slices.ContainsFunc(calls, foreign) {
		return nil
	}
	return calls
}

func (p *Parser) emitCall(call Call) {
	if len(call.ID) < 9 { // one that the model made up is kept if it looks like one
		call.ID = p.id(call)
	}
	p.out = append(p.out,
		Delta{Kind: CallStart, Index: p.calls, ID: call.ID, Name: call.Name},
		Delta{Kind: CallArgs, Index: p.calls, Text: call.Arguments})
	p.calls++
}

// id makes an id of nine letters and digits, the form that Mistral's templates
// ask for. The same answer gets the same ids.
func (p *Parser) id(call Call) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s", p.o.Seed, p.calls, call.Name, call.Arguments))
	id := strings.NewReplacer("+", "a", "/", "b").Replace(base64.RawStdEncoding.EncodeToString(sum[:]))
	return id[:9]
}

// keep is the number of bytes at the end that may become part of a marker or
// of a code point.
func (p *Parser) keep(final bool, marks []mark) int {
	if final {
		return 0
	}
	n := partialRune(p.rest)
	for _, m := range marks {
		for k := min(len(m.text)-1, len(p.rest)); k > n; k-- {
			if strings.HasSuffix(p.rest, m.text[:k]) {
				n = k
				break
			}
		}
	}
	return n
}

// whole is what is left without a code point that is still incomplete.
func (p *Parser) whole(final bool) string {
	if final {
		return p.rest
	}
	return p.rest[:len(p.rest)-partialRune(p.rest)]
}

// partialRune is the length of the code point that s ends inside of.
func partialRune(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		c := s[len(s)-n]
		if utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			break
		}
	}
	return 0
}

// emitUpTo emits the first n bytes of what is left.
func (p *Parser) emitUpTo(kind DeltaKind, n int) {
	s := p.rest[:n]
	p.rest = p.rest[n:]
	p.emit(kind, s)
}

// emit emits text, but keeps white space at its end back: between parts of a
// message it is dropped.
func (p *Parser) emit(kind DeltaKind, s string) {
	if p.trim {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	}
	if s == "" {
		return
	}
	p.trim = false
	end := len(strings.TrimRightFunc(s, unicode.IsSpace))
	if end == 0 {
		p.spaces = append(p.spaces, s...)
		return
	}
	p.text(kind, string(p.spaces)+s[:end])
	p.spaces = append(p.spaces[:0], s[end:]...)
	p.started = p.started || kind == Content
	p.thought = p.thought || kind == Reasoning
}

func (p *Parser) text(kind DeltaKind, s string) {
	if n := len(p.out); n > 0 && p.out[n-1].Kind == kind {
		p.out[n-1].Text += s
		return
	}
	p.out = append(p.out, Delta{Kind: kind, Text: s})
}

// dropSpaces drops white space on both sides of this point.
func (p *Parser) dropSpaces() { p.spaces, p.trim = p.spaces[:0], true }

// flushSpaces gives back white space at the end of the content.
func (p *Parser) flushSpaces() {
	if len(p.spaces) > 0 && p.state == inContent && !p.trim {
		p.text(Content, string(p.spaces))
	}
	p.spaces = p.spaces[:0]
}

// mark is a marker in the text.
type mark struct {
	text      string
	reasoning bool   // opens reasoning
	control   bool   // is a control token of the models that use it
	read      reader // reads the call that it opens; nil: the marker is dropped
}

// firstMark finds the first of the markers, the longest at its place.
func firstMark(s string, marks []mark) (int, *mark) {
	var firsts [16]byte
	n := 0
	for i := range marks {
		if c := marks[i].text[0]; n < len(firsts) && bytes.IndexByte(firsts[:n], c) < 0 {
			firsts[n] = c
			n++
		}
	}
	for at := 0; ; at++ {
		j := strings.IndexAny(s[at:], string(firsts[:n]))
		if j < 0 {
			return -1, nil
		}
		at += j
		var best *mark
		for i := range marks {
			if m := &marks[i]; strings.HasPrefix(s[at:], m.text) && (best == nil || len(m.text) > len(best.text)) {
				best = m
			}
		}
		if best != nil {
			return at, best
		}
	}
}

// longerMark reports whether s, which begins with a marker, may become another
// one that begins with it.
func longerMark(s string, marks []mark) bool {
	for i := range marks {
		if len(s) < len(marks[i].text) && strings.HasPrefix(marks[i].text, s) {
			return true
		}
	}
	return false
}
