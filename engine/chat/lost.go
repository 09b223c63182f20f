package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"godwit/engine/chat/jinja"
)

// lostError says that the template leaves out what a conversation says.
type lostError struct {
	messages []int // their places in the conversation, none: the tools are left out
	role     string
}

func (e *lostError) Error() string {
	if len(e.messages) == 0 {
		return "the template prints no tools in a conversation of these turns"
	}
	return fmt.Sprintf("the template does not print the text of a message of the role %s at this place", e.role)
}

// mustPrint are the roles whose text has to be in every prompt. Templates leave
// parts of the assistant's turns out on purpose.
var mustPrint = []string{"system", "developer", "user", "tool"}

// checkPrinted renders the turns of a conversation with marks in place of their
// text, and returns a *lostError for those of one role that are not printed. The
// text itself says less, because templates trim, escape and repeat it.
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
		return ctx.Err() // the template reads the text, and took the real one
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

// marked returns content with marks in place of its texts, and the marks.
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

// restore puts what the template left out where it prints it; false if there is
// no other place.
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
		c.note("the template takes no tool result without its call; it is written as text")
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

// joinParts makes one text of several parts, where a template prints the first
// alone. Other parts stay.
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
			continue // one text beside other parts
		default:
			m = m.Clone()
			m.Set("content", others)
			c.messages[i] = m
		}
		joined = true
	}
	return joined
}

// dropEmpty leaves out the assistant's turns that say nothing, such as cancelled
// answers.
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
	c.note("the template takes no empty turn of the assistant; it is left out")
	return true
}
