package chat

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"godwit/engine/chat/jinja"
)

// Limits of repairs.
const (
	maxRepair  = 64 << 10 // maximum bytes of a call that can be repaired
	nameWithin = 256      // number of bytes in which the function's name must begin
)

// closerOf returns the marker that closes opener, or "" if the syntax has none.
func closerOf(opener string) string {
	for _, pair := range [][2]string{{"begin", "end"}, {"start", "end"}, {"START", "END"}, {"prefix", "suffix"}} {
		if strings.Contains(opener, pair[0]) {
			return strings.Replace(opener, pair[0], pair[1], 1)
		}
	}
	switch {
	case strings.HasPrefix(opener, "```"):
		return "```"
	case strings.HasPrefix(opener, "<|") && strings.HasSuffix(opener, "|>"):
		return "<|/" + opener[2:]
	case strings.HasPrefix(opener, "<|") && strings.HasSuffix(opener, ">"):
		return "<" + opener[2:len(opener)-1] + "|>"
	case strings.HasPrefix(opener, "<") && strings.HasSuffix(opener, ">"):
		return "</" + opener[1:]
	case strings.HasPrefix(opener, "<") && strings.HasSuffix(opener, ` name="`):
		return "</" + strings.TrimSuffix(opener[1:], ` name="`) + ">"
	case strings.HasPrefix(opener, "<") && strings.HasSuffix(opener, "="):
		return "</" + opener[1:len(opener)-1] + ">"
	}
	return ""
}

// repair reads malformed calls as a whole, from their opener to the closing
// marker, if no reader accepts them. They count only if they name offered
// functions and their arguments fit. n is the number of bytes read. more is
// true if more text is needed. Without the closing marker a call may be
// truncated, so it stays text.
func (p *Parser) repair(s string, final bool) (calls []Call, n int, more bool) {
	end := closerOf(p.opener.text)
	if end == "" {
		return nil, 0, false
	}
	i := strings.Index(s, end)
	head := s
	if i >= 0 {
		head = s[:i]
	} else if tag, cut := begunTag(s, end); final && cut > 0 {
		// the answer ends inside the closing marker
		for _, rest := range []string{tag[cut:], tag[cut:] + end} {
			if calls, err := p.opener.read(&cursor{s: s + rest, final: true, p: p}); err == nil && p.allFit(calls) {
				return calls, len(s), false
			}
		}
		if calls = p.repaired(s[:len(s)-cut]); len(calls) > 0 {
			return calls, len(s), false
		}
	}
	switch likely, open := p.likely(head); {
	case !likely && (final || i >= 0 || !open), i < 0 && (final || len(s) > maxRepair):
		return nil, 0, false
	case i < 0:
		return nil, 0, true
	}
	return p.repaired(head), i + len(end), false
}

// begunTag finds the closing tag that s ends inside of. n is the number of the
// tag's bytes in s, or 0 if there is no such tag.
func begunTag(s, end string) (tag string, n int) {
	for _, tag := range []string{end, "</function>", "</invoke>", "</｜DSML｜invoke>"} {
		const least = 2 // bytes that identify a closing tag
		for n := len(tag) - 1; n >= least; n-- {
			if strings.HasSuffix(s, tag[:n]) {
				return tag, n
			}
		}
	}
	return "", 0
}

// likely reports whether text begins like a call of an offered function. open
// reports whether more text could change the result.
func (p *Parser) likely(s string) (yes, open bool) {
	if len(s) > nameWithin {
		s = s[:nameWithin]
		defer func() { open = false }()
	}
	s = strings.TrimSpace(s)
	markup := s != "" && strings.IndexByte("{[(<`", s[0]) >= 0
	name, at := p.offeredIn(s)
	if name == "" {
		const longest = 40 // maximum length of a prefix of a name
		return false, markup || len(s) < longest && !strings.ContainsAny(s, " \t\n")
	}
	return markup || before(s[:at-len(name)]) == "", false
}

// repaired reads the calls of a complete text. It returns nil if any of them is
// doubtful.
func (p *Parser) repaired(body string) []Call {
	for _, read := range []func(string) []Call{p.taggedCall, p.documentCalls, p.namedCalls} {
		if calls := read(body); len(calls) > 0 && p.allFit(calls) {
			return calls
		}
	}
	return nil
}

// repairedArguments reads the arguments of a function, without its name.
func (p *Parser) repairedArguments(name, body string) (string, error) {
	params, known := p.schemas[name]
	r := &slack{s: unfenced(body), root: params}
	args, ok := r.value(orObject(params), 0, func(string) bool { return true })
	if !known || !ok || !leftovers(r.rest()) || !p.allFit([]Call{{Name: name, Arguments: args}}) {
		return "", errBad
	}
	return args, nil
}

func (p *Parser) allFit(calls []Call) bool {
	for _, c := range calls {
		params, ok := p.schemas[c.Name]
		if !ok || !json.Valid([]byte(c.Arguments)) || !fits(params, params, c.Arguments, 0) {
			return false
		}
	}
	return true
}

// documentCalls reads a JSON document that contains the names and arguments of
// calls.
func (p *Parser) documentCalls(body string) []Call {
	body = unfenced(body)
	name, _ := p.offeredIn(body)
	if name == "" || body == "" || strings.IndexByte("{[(", body[0]) < 0 {
		return nil
	}
	params := p.schemas[name]
	if params == nil {
		params = dict("type", "object")
	}
	call := jinja.NewDict()
	for _, key := range []string{"name", "tool_name", "id", "type"} {
		call.Set(key, dict("type", "string"))
	}
	for _, key := range []string{"arguments", "parameters", "args"} {
		call.Set(key, params)
	}
	whole := dict("properties", call)
	call.Set("function", whole)
	r := &slack{s: body, root: p.schemas[name]}
	text, ok := r.value(dict("items", whole, "properties", call), 0, func(string) bool { return true })
	if !ok || !leftovers(r.rest()) {
		return nil
	}
	calls, err := callsOf(text)
	if err != nil {
		return nil
	}
	return calls
}

// namedCalls reads names that are followed by arguments in brackets.
func (p *Parser) namedCalls(body string) []Call {
	var out []Call
	s := unfenced(controlTags.ReplaceAllStringFunc(body, func(tag string) string {
		if tag == gemmaQuote {
			return tag
		}
		return " "
	}))
	for s != "" && len(out) < maxFailed {
		name, at := p.offeredIn(s[:min(len(s), nameWithin)])
		if name == "" || before(s[:at-len(name)]) != "" {
			return nil
		}
		params := p.schemas[name]
		r := &slack{s: unfenced(strings.TrimLeft(numbered.ReplaceAllString(s[at:], ""), " \t\r\n\"'>:")), root: params}
		args := "{}"
		if strings.HasPrefix(r.s, "{") || strings.HasPrefix(r.s, "(") {
			var ok bool
			if args, ok = r.value(orObject(params), 0, func(string) bool { return true }); !ok {
				return nil
			}
		}
		out = append(out, Call{Name: name, Arguments: args})
		if leftovers(r.rest()) {
			break
		}
		s = r.rest()
	}
	return out
}

var (
	controlTags = regexp.MustCompile(`<[|｜][^<>]*[|｜]>`)   // control tokens inside calls
	numbered    = regexp.MustCompile(`^:\d+|^\s*\[ARGS\]`) // text that may follow a name
)

// before removes the text that syntaxes write before a name.
func before(s string) string {
	const marks = " \t\r\n\"'[]}){(`,;<"
	s = strings.TrimRight(s, marks)
	for _, word := range []string{"<function=", "<function name=", "<invoke name=", "<tool name=", "functions.", "functions", "function", "call:", "json"} {
		s = strings.TrimRight(strings.TrimSuffix(s, word), marks)
	}
	return s
}

func orObject(params *Dict) Value {
	if params == nil {
		return dict("type", "object")
	}
	return params
}

// unfenced returns text without an enclosing code fence.
func unfenced(s string) string {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "```"); ok {
		s = strings.TrimSpace(strings.TrimPrefix(rest, "json"))
	}
	return strings.TrimSpace(strings.TrimSuffix(s, "```"))
}

// leftovers reports whether only surplus brackets and quotes are left.
func leftovers(s string) bool { return strings.Trim(s, " \t\r\n}])\"'`;,") == "" }

// taggedCall reads a name and parameters in tags. Some tags may be missing or have
// another form: <parameter=K>, <parameter name="K">, <K>, <arg_key>K</arg_key>.
func (p *Parser) taggedCall(body string) []Call {
	name, at := p.offeredIn(body)
	if name == "" || before(body[:at-len(name)]) != "" {
		return nil
	}
	params := p.schemas[name]
	props, _ := lookup(params, "properties").(*Dict)
	if props == nil {
		return nil
	}
	var found []tagged
	for key := range props.All() {
		for _, open := range []string{"<parameter=" + key + ">", `<parameter="` + key + `">`, `<parameter name="` + key + `">`, `<param name="` + key + `">`, "<arg_key>" + key + "</arg_key>", "<" + key + ">"} {
			if i := strings.Index(body[at:], open); i >= 0 {
				found = append(found, tagged{key, at + i, at + i + len(open)})
				break
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b tagged) int { return a.from - b.from })
	if strings.Trim(body[at:found[0].from], " \t\r\n\"'>") != "" {
		return nil
	}
	var args argList
	for i, f := range found {
		to := len(body)
		if i+1 < len(found) {
			to = found[i+1].from
		}
		if f.to > to {
			return nil
		}
		value := untagged(body[f.to:to], f.key, name)
		args.add(f.key, p.typed(name, f.key, value))
	}
	return []Call{{Name: name, Arguments: args.String()}}
}

// tagged is the opening tag of a parameter.
type tagged struct {
	key      string
	from, to int
}

// untagged returns a parameter's value without the tags after it.
func untagged(s, key, function string) string {
	s = strings.TrimPrefix(strings.TrimLeft(s, " \t\r\n"), "<arg_value>")
	s = strings.TrimPrefix(s, "\n")
	for again := true; again; {
		again = false
		s = strings.TrimRight(s, " \t\r\n")
		for _, tag := range []string{"</parameter>", "</param>", "</arg_value>", "</" + key + ">", "</function>", "</" + function + ">", "</invoke>"} {
			if rest, ok := strings.CutSuffix(s, tag); ok {
				s, again = rest, true
			}
		}
	}
	return s
}

// offeredIn finds the first name of an offered function that is a whole word in
// s. It returns the name and the offset of its end.
func (p *Parser) offeredIn(s string) (name string, end int) {
	first := len(s)
	for have := range p.schemas {
		for at := 0; ; {
			i := strings.Index(s[at:], have)
			if i < 0 {
				break
			}
			i += at
			if at = i + len(have); apart(s, i, at) {
				if i < first || i == first && len(have) > len(name) {
					name, end, first = have, at, i
				}
				break
			}
		}
	}
	return name, end
}

// apart reports whether neither a letter nor a digit is adjacent to s[i:j].
func apart(s string, i, j int) bool {
	word := func(c rune) bool { return c == '_' || c == '-' || unicode.IsLetter(c) || unicode.IsDigit(c) }
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[j:])
	return !word(before) && !word(after)
}
