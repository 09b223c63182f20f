package engine

import (
	"fmt"
	"slices"
	"strings"

	"godwit/engine/chat"
	"godwit/engine/grammar"
)

// verifier checks a finished answer against the schemas that its grammar does not enforce
// completely.
type verifier struct {
	form      *grammar.Check // grammar of the text; nil if there is nothing to check
	functions map[string]*chat.Function
	notices   []string
	text      strings.Builder
	calls     []verified
}

// verified is a tool call in the answer.
type verified struct {
	name string
	args strings.Builder
}

// maxNamed limits how many keywords a notice names.
const maxNamed = 8

// leave adds a notice that some keywords are checked only when the answer is complete.
func (v *verifier) leave(what string, left []string) {
	left = slices.Clone(left)
	slices.Sort(left)
	if left = slices.Compact(left); len(left) == 0 {
		return
	}
	more := ""
	if n := len(left) - maxNamed; n > 0 {
		left, more = left[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	v.notices = append(v.notices, fmt.Sprintf("the grammar of %s may not follow %s%s; it is checked afterwards", what, strings.Join(left, ", "), more))
}

// document requests a check of the answer's text if the form's grammar leaves out
// keywords.
func (v *verifier) document(form *grammar.Grammar) {
	if form != nil && form.Check() != nil {
		v.form = form.Check()
		v.leave("the answer", form.Left())
	}
}

// function requests a check of the calls of a function.
func (v *verifier) function(f *chat.Function) {
	if v.functions == nil {
		v.functions = map[string]*chat.Function{}
	}
	v.functions[f.Name] = f
	v.leave(f.Name, f.Left)
}

// see processes an event. After the last one, it checks the answer and adds
// violations to the result.
func (v *verifier) see(ev *Event) {
	switch ev.Kind {
	case Text:
		if v.form != nil {
			v.text.WriteString(ev.Text)
		}
	case Call:
		if len(v.functions) == 0 {
			return
		}
		for len(v.calls) <= ev.Call.Index {
			v.calls = append(v.calls, verified{})
		}
		c := &v.calls[ev.Call.Index]
		c.name += ev.Call.Name
		c.args.WriteString(ev.Call.Arguments)
	case End:
		if ev.Result.Finish != FinishLength {
			ev.Result.Broken = v.broken()
		}
	}
}

func (v *verifier) broken() []string {
	var out []string
	if v.form != nil && len(v.calls) == 0 {
		if err := v.form.Validate([]byte(strings.TrimSpace(v.text.String()))); err != nil {
			out = append(out, fmt.Sprintf("the answer: %v", err))
		}
	}
	for i := range v.calls {
		c := &v.calls[i]
		f := v.functions[c.name]
		if f == nil {
			continue
		}
		check, err := grammar.NewCheck(f.Params)
		if err == nil {
			err = check.Validate([]byte(c.args.String()))
		}
		if err != nil {
			out = append(out, fmt.Sprintf("the arguments of %s: %v", c.name, err))
		}
	}
	return out
}
