package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"godwit/engine/chat/jinja"
)

// lostError reports that the template drops text of a conversation.
type lostError struct {
	messages []int // indexes of the dropped messages; empty if the tools were dropped
	role     string
}

func (e *lostError) Error() string {
	if len(e.messages) == 0 {
		return "the template does not print the tools in a conversation with these turns"
	}
	return fmt.Sprintf("the template does not print the text of a %s message at this position", e.role)
}

// mustPrint lists the roles whose text must be in every prompt. Assistant turns
// are not listed, because templates drop parts of them on purpose.
var mustPrint = []string{"system", "developer", "user", "tool"}

// checkPrinted renders a conversation with marks in place of the texts. If the
// marks of some messages are missing from the result, it returns a *lostError for
// the messages of one role. Comparing the texts themselves would be unreliable,
// because templates trim, escape and repeat them.
func (f *form) checkPrinted(ctx context.Context, o Options, in Input, c *conversation) error {
	messages := jinja.NewList()
	marks := make([][]string, len(c.messages))
	for i, m := range c.messages {
		content, used := marked(lookup(m, "content"), i)
		if len(used) > 0 {
			m = m.Clone()
			m.Set("content", content)
			if slices.Contains(mustPrint, roleOf(m)) {
				marks[i] = used
			}
		}
		messages.Append(m)
	}
	tools := c.tools
	if tools != nil {
		tools = probeTools()
	}
	pieces, err := f.tmpl.Render(ctx, f.variables(o, in, messages, tools), jinja.Options{Now: in.Now})
	if err != nil {
		return ctx.Err() // the template rejects only the marks, not the real texts
	}
	text := jinja.Text(pieces)
	lost := &lostError{}
	for i, used := range marks {
		role := roleOf(c.messages[i])
		gone := slices.ContainsFunc(used, func(mark string) bool { return !strings.Contains(text, mark) })
		if gone && (lost.role == "" || lost.role == role) {
			lost.messages, lost.role = append(lost.messages, i), role
		}
	}
	if lost.role != "" || tools != nil && !strings.Contains(text, probeTool) {
		return lost
	}
	return nil
}

// marked returns content with marks in place of its texts, together with the marks.
func marked(content Value, message int) (out Value, marks []string) {
	mark := func() Value {
		m := fmt.Sprintf("Xq7m%dp%dm", message, len(marks))
		marks = append(marks, m)
		return jinja.Typed(m)
	}
	switch v := content.(type) {
	case *jinja.Str:
		if strings.TrimSpace(v.String()) != "" {
			return mark(), marks
		}
	case *List:
		parts := jinja.NewList()
		for i := range v.Len() {
			part := v.At(i)
			if d, ok := part.(*Dict); ok {
				if s, ok := text(lookup(d, "text")); ok && strings.TrimSpace(s) != "" {
					d = d.Clone()
					d.Set("text", mark())
					part = d
				}
			}
			parts.Append(part)
		}
		return parts, marks
	}
	return content, nil
}

// restore moves dropped text to a place where the template prints it. It returns
// false if there is no other place.
func (c *conversation) restore(lost *lostError) bool {
	switch {
	case len(lost.messages) == 0:
		return c.foldSystem()
	case c.joinParts(lost.messages):
		return true
	case lost.role == "tool":
		for _, i := range lost.messages {
			c.messages[i] = c.resultText(c.messages[i])
		}
		c.note("the template does not accept a tool result without its call; the result was written as text")
		return true
	case lost.role == "developer":
		for i, m := range c.messages {
			if roleOf(m) == "developer" {
				m = m.Clone()
				m.Set("role", jinja.Trusted("system"))
				c.messages[i] = m
			}
		}
		return true
	case lost.role == "system" && (c.lead() > 1 || lost.messages[0] >= c.lead()):
		c.gatherSystem()
		return true
	case lost.role == "system":
		return c.foldSystem()
	}
	return false
}

// joinParts joins the text parts of a message for a template that prints only the
// first one. Other parts stay.
func (c *conversation) joinParts(messages []int) bool {
	joined := false
	for _, i := range messages {
		m := c.messages[i]
		l, _ := lookup(m, "content").(*List)
		if l == nil || l.Len() < 2 {
			continue
		}
		others := jinja.NewList(dict("type", "text", "text", plainContent(m)))
		for k := range l.Len() {
			if d, ok := l.At(k).(*Dict); ok && lookup(d, "text") == nil {
				others.Append(d)
			}
		}
		switch {
		case others.Len() == 1:
			c.messages[i] = c.with(m, plainContent(m))
		case others.Len() == l.Len():
			continue // there is only one text part, beside parts of other types
		default:
			m = m.Clone()
			m.Set("content", others)
			c.messages[i] = m
		}
		joined = true
	}
	return joined
}

// dropEmpty drops assistant turns without text, such as cancelled answers.
func (c *conversation) dropEmpty() bool {
	n := len(c.messages)
	var out []*Dict
	for i, m := range c.messages {
		said, _ := text(plainContent(m))
		if roleOf(m) != "assistant" || strings.TrimSpace(said) != "" || !isNull(lookup(m, "tool_calls")) || c.continues && i == n-1 {
			out = append(out, m)
		}
	}
	if len(out) == n || len(out) == 0 {
		return false
	}
	c.messages = out
	c.note("the template does not accept an empty assistant turn; it was left out")
	return true
}
