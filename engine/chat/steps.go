package chat

import (
	"errors"
	"slices"
	"strings"
	"unicode"
)

// advance runs one parsing step. It returns false if it needs more text.
func (p *Parser) advance(final bool) bool {
	if p.step != nil {
		return p.step(p, final)
	}
	switch p.state {
	case inReasoning:
		return p.reasoningStep(final)
	case inCall:
		return p.callStep(final)
	case inHeld:
		return p.heldStep(final)
	}
	if !p.started && p.syntax.bare != nil {
		if decided, again := p.bareStep(final); !decided {
			return again
		}
	}
	if p.o.Form && p.calls == 0 { // after a call, only calls may follow
		return p.formStep(final)
	}
	return p.contentStep(final)
}

// contentStep looks for the next marker of the content.
func (p *Parser) contentStep(final bool) bool {
	i, m := firstMark(p.rest, p.syntax.marks)
	if m == nil {
		p.emitUpTo(Content, len(p.rest)-p.keep(final, p.syntax.marks))
		return false
	}
	p.emitUpTo(Content, i)
	if !final && longerMark(p.rest, p.syntax.marks) {
		return false
	}
	return p.enter(m, final)
}

// enter handles the marker m at the start of p.rest.
func (p *Parser) enter(m *mark, final bool) bool {
	switch {
	case m.closes:
		drop, decided := p.strayClose(m, final)
		if !decided {
			return false
		}
		if !drop {
			p.emitUpTo(Content, len(m.text))
			return true
		}
		p.rest = p.rest[len(m.text):]
		if !p.started {
			p.dropSpaces()
		}
		return true
	case m.reasoning:
		p.rest = p.rest[len(m.text):]
		p.dropSpaces()
		p.state, p.fresh = inReasoning, true
	case m.read != nil:
		p.rest = p.rest[len(m.text):]
		p.state, p.from, p.opener = inCall, inContent, *m
	default: // this marker has no meaning here
		p.rest = p.rest[len(m.text):]
		p.dropSpaces()
	}
	return true
}

// strayClose decides whether to drop a closing tag of reasoning that is not open.
// The tag is dropped at the start of the answer, after a call that ended the
// reasoning, if it is a control token, and once at the end of a line.
func (p *Parser) strayClose(m *mark, final bool) (drop, decided bool) {
	switch {
	case m.control, !p.started && p.calls == 0:
		return true, true
	case p.early:
		p.early = false
		return true, true
	case p.thought || p.stray:
		return false, true
	}
	next := p.rest[len(m.text):]
	if next == "" && !final {
		return false, false
	}
	if next == "" || next[0] == '\n' || next[0] == '\r' {
		p.stray = true
		return true, true
	}
	return false, true
}

// formStep passes on a document. Only the markers that enclose the document are
// recognised.
func (p *Parser) formStep(final bool) bool {
	if p.started {
		drops := p.syntax.drops
		i, m := firstMark(p.rest, drops)
		if m == nil {
			p.emitUpTo(Content, len(p.rest)-p.keep(final, drops))
			return false
		}
		p.emitUpTo(Content, i)
		return p.enter(m, final)
	}
	s := strings.TrimLeftFunc(p.whole(final), unicode.IsSpace)
	if s == "" {
		return false
	}
	p.emitUpTo(Content, strings.Index(p.rest, s))
	if !final && longerMark(p.rest, p.syntax.marks) {
		return false
	}
	if i, m := firstMark(p.rest, p.syntax.marks); i == 0 {
		return p.enter(m, final)
	}
	p.emitUpTo(Content, runeLen(s))
	return true
}

// bareStep looks at the start of an answer for a call without an opening marker.
// decided is false until that is clear. again requests another step.
func (p *Parser) bareStep(final bool) (decided, again bool) {
	s := p.whole(final)
	p.emitUpTo(Content, len(s)-len(strings.TrimLeftFunc(s, unicode.IsSpace)))
	if s = p.whole(final); s == "" && !final {
		return false, false
	}
	const enough = 4096 // number of bytes after which a call must be recognisable
	short, settled := s, final
	if len(s) > enough {
		short, settled = s[:enough], true
	}
	switch p.syntax.bare(short, settled) {
	case maybe:
		return false, false
	case yes:
		p.state, p.from, p.opener = inCall, inContent, mark{read: p.syntax.read}
		return false, true
	}
	return true, false
}

// reasoningStep looks for the end of reasoning. It drops a second opening tag at
// the start. A call may end the reasoning.
func (p *Parser) reasoningStep(final bool) bool {
	if p.fresh {
		open := strings.TrimSpace(p.o.Tags.Open)
		s := strings.TrimLeftFunc(p.rest, unicode.IsSpace)
		if !final && (s == "" || len(s) < len(open) && strings.HasPrefix(open, s)) {
			return false
		}
		p.fresh = false
		if open != "" && strings.HasPrefix(s, open) {
			p.rest = s[len(open):]
		}
	}
	i, m := firstMark(p.rest, p.syntax.thinking)
	if m == nil {
		p.emitUpTo(Reasoning, len(p.rest)-p.keep(final, p.syntax.thinking))
		return false
	}
	p.emitUpTo(Reasoning, i)
	if !final && longerMark(p.rest, p.syntax.thinking) {
		return false
	}
	p.rest = p.rest[len(m.text):]
	if m.read != nil {
		p.state, p.from, p.opener = inCall, inReasoning, *m
		return true
	}
	p.dropSpaces()
	p.state = inContent
	return true
}

// callStep reads a call. If the text is not a call, it becomes part of the
// content or reasoning that contains it.
func (p *Parser) callStep(final bool) bool {
	c := &cursor{s: p.whole(final), final: final, p: p}
	calls, err := p.opener.read(c)
	if err != nil && final && (p.from == inContent || p.opener.control) {
		if whole := p.salvage(c.s); len(whole) > 0 {
			calls, err, c.i = whole, nil, len(c.s)
		}
	}
	mention := p.from == inReasoning && !p.opener.control
	if errors.Is(err, errBad) && !mention && !p.opener.last {
		whole, n, more := p.repair(c.s, final)
		if more {
			return false
		}
		if len(whole) > 0 {
			calls, err, c.i = whole, nil, n
		} else if n > 0 {
			p.notCall(n) // the text is skipped as a whole, so nothing inside it is read as a call
			return true
		}
	}
	if err != nil && final && p.calls > 0 && p.broken(c.s) {
		p.rest, p.state = "", p.from // the rest of a call is not content if there are other calls
		p.dropSpaces()
		return true
	}
	switch {
	case errors.Is(err, errMore) && !final:
		return false
	case err != nil || len(calls) == 0 || mention && !p.offered(calls):
		p.noCall()
		return true
	case mention:
		p.held = heldCalls{text: p.opener.text + p.rest[:c.i], calls: calls}
		p.rest = p.rest[c.i:]
		p.state = inHeld
		return true
	}
	p.early = p.early || p.from == inReasoning
	p.dropSpaces()
	p.rest = p.rest[c.i:]
	p.state = inContent
	p.started = true
	for _, call := range calls {
		p.emitCall(call)
	}
	return true
}

// broken reports whether the end of the answer truncated a call.
func (p *Parser) broken(s string) bool {
	_, err := p.opener.read(&cursor{s: s, p: p})
	return errors.Is(err, errMore)
}

// notCall treats a complete call of n bytes after its opener as text.
func (p *Parser) notCall(n int) {
	text := p.rest[:n]
	p.rest = p.rest[n:]
	p.noCall()
	if p.from == inReasoning {
		p.emit(Reasoning, text)
	} else {
		p.emit(Content, text)
	}
}

// noCall treats text that began like a call as text.
func (p *Parser) noCall() {
	p.state = p.from
	opener := p.opener.text
	if opener == "" {
		// the answer began like a call; its first character now goes to the
		// content, so it is not tried again
		opener, p.rest = p.rest[:1], p.rest[1:]
	}
	kind := Content
	if p.from == inReasoning {
		kind = Reasoning
	}
	p.emit(kind, opener)
	if p.failed++; p.failed == maxFailed {
		calls := func(m mark) bool { return m.read != nil }
		p.syntax.marks = slices.DeleteFunc(p.syntax.marks, calls)
		p.syntax.thinking = slices.DeleteFunc(p.syntax.thinking, calls)
	}
}

func (p *Parser) offered(calls []Call) bool {
	return !slices.ContainsFunc(calls, func(c Call) bool { _, ok := p.schemas[c.Name]; return !ok })
}

// heldCalls holds complete calls inside reasoning that plain text opened. They
// count only if the answer ends after them. Otherwise the model has only
// mentioned them.
type heldCalls struct {
	text   string // text of the calls in the reasoning
	closed bool   // whether the reasoning ended after this text
	calls  []Call
}

// heldStep decides by the following text whether calls inside reasoning count.
func (p *Parser) heldStep(final bool) bool {
	s := strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	switch {
	case s == "" && !final:
		return false
	case s == "" && !p.started && p.calls == 0:
		p.rest, p.state, p.started = "", inContent, true
		p.dropSpaces()
		for _, call := range p.held.calls {
			p.emitCall(call)
		}
		return false
	case s == "" || p.held.closed:
		return p.mentioned()
	case !final && longerMark(s, p.syntax.thinking):
		return false
	}
	i, m := firstMark(s, p.syntax.thinking)
	if i != 0 {
		return p.mentioned()
	}
	blank := len(p.rest) - len(s)
	if m.read == nil {
		p.held.closed = true
		p.rest = s[len(m.text):]
		return true
	}
	c := &cursor{s: s[len(m.text):], final: final, p: p}
	calls, err := m.read(c)
	if errors.Is(err, errMore) && !final {
		return false
	}
	if err != nil || len(calls) == 0 || !p.offered(calls) {
		return p.mentioned()
	}
	n := blank + len(m.text) + c.i
	p.held.text += p.rest[:n]
	p.held.calls = append(p.held.calls, calls...)
	p.rest = p.rest[n:]
	return true
}

// mentioned returns calls that were only mentioned to the reasoning text.
func (p *Parser) mentioned() bool {
	p.emit(Reasoning, p.held.text)
	p.state = inReasoning
	if p.held.closed {
		p.dropSpaces()
		p.state = inContent
	}
	return true
}

// salvage reads the complete calls of a JSON list that the end of the answer
// truncated. The last, incomplete call is dropped.
func (p *Parser) salvage(s string) []Call {
	if _, err := p.opener.read(&cursor{s: s, p: p}); !errors.Is(err, errMore) {
		return nil // the text is invalid, not incomplete
	}
	var open []byte        // closing brackets of the open ones
	const most = len(`{[`) // maximum number of brackets around a complete call
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
			open = append(open, c+2) // in ASCII, ] is [ plus two, and } is { plus two
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
	calls, err := p.opener.read(&cursor{s: s[:end] + closers, final: true, p: p})
	foreign := func(c Call) bool { _, ok := p.schemas[c.Name]; return !ok }
	if err != nil || slices.ContainsFunc(calls, foreign) {
		return nil
	}
	return calls
}
