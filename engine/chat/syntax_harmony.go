package chat

import "strings"

// Harmony is the syntax
//
//	<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
const Harmony ParserKind = "harmony"

func init() {
	register(Syntax{
		Kind:   Harmony,
		Detect: []Sign{{10, []string{"<|channel|>", "<|message|>"}}},
		Step:   (*Parser).harmonyStep,
		Text:   textFrame{open: "<|channel|>final<|message|>", must: true},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			call := b.wrapped(rule, "<|channel|>commentary to=functions."+name+" <|constrain|>json<|message|>", "<|call|>")
			return call + "?", nil // <|call|> is optional, because the answer ends with it
		},
	})
}

// harmonyState is the parser's position in a harmony answer. The answer is a
// sequence of messages, each with a header (role, channel, recipient), <|message|>,
// a body and an end. The channel decides the kind of the body.
type harmonyState struct {
	mode    harmonyMode
	kind    DeltaKind // kind of the body, CallArgs for a call
	name    string    // name of the called function
	scanned int       // number of body bytes already searched for markers
}

type harmonyMode uint8

const (
	beforeHeader harmonyMode = iota
	inHeader
	inBody
)

// maxHeader limits the length of a header. Longer text is not a header.
const maxHeader = 512

var (
	harmonyStarts = []string{"<|start|>", "<|channel|>", "<|message|>", " to=", "to="}
	harmonyEnds   = []mark{{text: "<|end|>"}, {text: "<|return|>"}, {text: "<|call|>"}, {text: "<|start|>"}, {text: "<|channel|>"}}
)

func (p *Parser) harmonyStep(final bool) bool {
	switch p.harmony.mode {
	case beforeHeader:
		return p.harmonyStart(final)
	case inHeader:
		return p.harmonyHeader(final)
	}
	if p.harmony.kind == CallArgs {
		return p.harmonyCall(final)
	}
	return p.harmonyBody(final)
}

// harmonyStart decides whether a header follows. Text without a header is content.
func (p *Parser) harmonyStart(final bool) bool {
	if p.rest == "" {
		return false
	}
	for _, s := range harmonyStarts {
		if strings.HasPrefix(p.rest, s) {
			p.harmony.mode = inHeader
			return true
		}
		if !final && strings.HasPrefix(s, p.rest) {
			return false
		}
	}
	p.harmonyOpen(Content)
	return true
}

func (p *Parser) harmonyHeader(final bool) bool {
	i := strings.Index(p.rest[:min(len(p.rest), maxHeader+len("<|message|>"))], "<|message|>")
	if i < 0 && len(p.rest) <= maxHeader {
		if final {
			p.rest = "" // the answer ended before the first message
		}
		return false
	}
	if i < 0 || i > maxHeader {
		p.harmonyOpen(Content)
		p.emitUpTo(Content, 1) // the text began like a header but is not one
		return true
	}
	header := p.rest[:i]
	p.rest = p.rest[i+len("<|message|>"):]
	_, channel, _ := strings.Cut(header, "<|channel|>")
	channel, _, _ = strings.Cut(strings.TrimSpace(channel), " ")
	channel, _, _ = strings.Cut(channel, "<|")
	if _, to, ok := strings.Cut(header, "to="); ok {
		if name := p.recipient(to); name != "" {
			p.harmony.mode, p.harmony.kind, p.harmony.name = inBody, CallArgs, name
			p.state = inCall
			return true
		}
	}
	if channel == "analysis" {
		p.harmonyOpen(Reasoning)
	} else {
		p.harmonyOpen(Content)
	}
	return true
}

// recipient returns the function that a message is addressed to, or "" if there is
// none. Spaces in the name are ignored if a function with the name without spaces
// is on offer.
func (p *Parser) recipient(to string) string {
	to, _, _ = strings.Cut(to, "<|")
	words := strings.Fields(to)
	for n := len(words); n > 0; n-- {
		for _, sep := range []string{"", "_"} {
			name := strings.TrimPrefix(strings.Join(words[:n], sep), "functions.")
			if _, known := p.schemas[strings.TrimPrefix(name, "_")]; known {
				return strings.TrimPrefix(name, "_")
			}
		}
	}
	if len(words) == 0 {
		return ""
	}
	name, isFunction := strings.CutPrefix(words[0], "functions.")
	plain := len(words) == 1 || words[1] == "json" || words[1] == "code"
	if isFunction && plain && len(p.schemas) > 0 && validName(name) {
		return name
	}
	return ""
}

// harmonyOpen begins a body. A second body of the same kind is separated from the
// first.
func (p *Parser) harmonyOpen(kind DeltaKind) {
	if p.started || p.thought || p.calls > 0 || p.harmony.kind == Reasoning {
		p.dropSpaces()
	}
	if kind == Reasoning && p.thought || kind == Content && p.started {
		p.spaces = append(p.spaces, "\n\n"...)
	}
	p.harmony.mode, p.harmony.kind = inBody, kind
	p.state = inContent
	if kind == Reasoning {
		p.state = inReasoning
	}
}

func (p *Parser) harmonyBody(final bool) bool {
	i, m := firstMark(p.rest, harmonyEnds)
	if m == nil {
		p.emitUpTo(p.harmony.kind, len(p.rest)-p.keep(final, harmonyEnds))
		return false
	}
	p.emitUpTo(p.harmony.kind, i)
	p.harmonyEnd(m)
	return true
}

// harmonyEnd finishes a body at its closing marker.
func (p *Parser) harmonyEnd(m *mark) {
	p.harmony.mode = beforeHeader
	if m.text != "<|start|>" && m.text != "<|channel|>" {
		p.rest = p.rest[len(m.text):]
	}
}

// harmonyCall reads a call's arguments, which end with their message.
func (p *Parser) harmonyCall(final bool) bool {
	i, m := firstMark(p.rest[p.harmony.scanned:], harmonyEnds)
	i += p.harmony.scanned
	if m == nil {
		if !final || p.rest == "" {
			p.harmony.scanned = len(p.rest) - p.keep(final, harmonyEnds)
			return false
		}
		i = len(p.rest)
	}
	p.harmony.scanned = 0
	body := p.rest[:i]
	p.rest = p.rest[i:]
	args, err := arguments(body)
	if strings.TrimSpace(body) == "" {
		args, err = "{}", nil
	}
	if err != nil && m != nil {
		args, err = p.repairedArguments(p.harmony.name, body)
	}
	if err != nil {
		p.harmonyOpen(Content)
		p.emit(Content, "functions."+p.harmony.name+" "+body)
	} else {
		p.dropSpaces()
		p.emitCall(Call{Name: p.harmony.name, Arguments: args})
	}
	p.harmony.mode, p.state = beforeHeader, inContent
	if m != nil {
		p.harmonyEnd(m)
	}
	return true
}
