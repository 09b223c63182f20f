package chat

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
)

func (p *Parser) emitCall(call Call) {
	if len(call.ID) < 9 { // an id that the model wrote is kept if it has the usual length
		call.ID = p.id(call)
	}
	p.out = append(p.out,
		Delta{Kind: CallStart, Index: p.calls, ID: call.ID, Name: call.Name},
		Delta{Kind: CallArgs, Index: p.calls, Text: call.Arguments})
	p.calls++
}

// id returns an id of nine letters and digits, the form that Mistral's templates
// require. Parsing the same answer again gives the same ids.
func (p *Parser) id(call Call) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s", p.o.Seed, p.calls, call.Name, call.Arguments))
	id := strings.NewReplacer("+", "a", "/", "b").Replace(base64.RawStdEncoding.EncodeToString(sum[:]))
	return id[:9]
}

// emitUpTo emits the first n bytes of p.rest.
func (p *Parser) emitUpTo(kind DeltaKind, n int) {
	s := p.rest[:n]
	p.rest = p.rest[n:]
	p.emit(kind, s)
}

// emit emits text but holds back white space at its end. White space between parts
// of a message is dropped.
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

// dropSpaces drops the white space before and after the current position.
func (p *Parser) dropSpaces() { p.spaces, p.trim = p.spaces[:0], true }

// flushSpaces emits the white space held back at the end of the content.
func (p *Parser) flushSpaces() {
	if len(p.spaces) > 0 && p.state == inContent && !p.trim {
		p.text(Content, string(p.spaces))
	}
	p.spaces = p.spaces[:0]
}
