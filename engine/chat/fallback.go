package chat

import (
	"slices"

	"godwit/engine/chat/jinja"
)

// note adds a notice unless it was already added.
func (c *conversation) note(s string) {
	if !slices.Contains(c.notices, s) {
		c.notices = append(c.notices, s)
	}
}

// relax rewrites the conversation into a form that more templates accept, one step
// per call. It returns false if no step is left.
func (c *conversation) relax() bool {
	steps := []func() bool{c.completeTools, c.emptyContent, c.dropEmpty, c.noteSystem, c.foldSystem, c.mergeTurns, c.splitCalls, c.reword}
	for c.relaxed < len(steps) {
		step := steps[c.relaxed]
		c.relaxed++
		if step() {
			return true
		}
	}
	return false
}

// completeTools adds the fields that templates may read without checking.
func (c *conversation) completeTools() bool {
	if c.tools == nil {
		return false
	}
	missing := func(d *Dict, key string, v Value) {
		if isNull(lookup(d, key)) {
			d.Set(key, v)
		}
	}
	out := jinja.NewList()
	for i := range c.tools.Len() {
		t := c.tools.At(i).(*Dict).Clone() // checkTools has verified the type
		fn := function(t).Clone()
		missing(fn, "description", jinja.Trusted(""))
		params := jinja.NewDict()
		if d, ok := lookup(fn, "parameters").(*Dict); ok {
			params = d.Clone()
		}
		missing(params, "type", jinja.Trusted("object"))
		props := jinja.NewDict()
		if d, ok := lookup(params, "properties").(*Dict); ok {
			for name, v := range d.All() {
				if p, ok := v.(*Dict); ok {
					p = p.Clone()
					missing(p, "type", jinja.Trusted("string"))
					missing(p, "description", jinja.Trusted(""))
					v = p
				}
				props.Set(name, v)
			}
		}
		params.Set("properties", props)
		missing(params, "required", jinja.NewList())
		fn.Set("parameters", params)
		t.Set("type", jinja.Trusted("function"))
		t.Set("function", fn)
		out.Append(t)
	}
	c.tools = out
	return true
}

// gatherSystem moves system messages to where the template prints them.
// Messages at the start are joined into one, and later ones become notes at
// their place.
func (c *conversation) gatherSystem() {
	lead := c.lead()
	if lead > 1 {
		var parts []Value
		for _, m := range c.messages[:lead] {
			parts = append(parts, plainContent(m))
		}
		c.messages = append([]*Dict{c.with(c.messages[0], jinja.Join("\n\n", parts...))}, c.messages[lead:]...)
	}
	c.noteSystem()
}

// lead returns the number of system messages at the start.
func (c *conversation) lead() int {
	n := 0
	for n < len(c.messages) && roleOf(c.messages[n]) == "system" {
		n++
	}
	return n
}

// noteSystem turns system messages after the start into marked notes in the
// user's voice, without moving them. A note goes into the user turn before it,
// or otherwise into the user turn directly after it, or otherwise into a
// separate turn. The text before a note is the same in the next request, so its
// KV cells can be reused.
func (c *conversation) noteSystem() bool {
	lead := c.lead()
	out := slices.Clone(c.messages[:lead])
	var held []Value // notes that have not been put into a turn yet
	own := func() {
		if len(held) > 0 {
			out = append(out, c.with(message("user", ""), jinja.Join("\n\n", held...)))
			held = nil
		}
	}
	changed := false
	for _, m := range c.messages[lead:] {
		n := len(out)
		switch role := roleOf(m); {
		case role == "system":
			changed = true
			note := jinja.Join("", jinja.Trusted("<system-note>\n"), plainContent(m), jinja.Trusted("\n</system-note>"))
			if n > lead && len(held) == 0 && roleOf(out[n-1]) == "user" {
				out[n-1] = c.with(out[n-1], jinja.Join("\n\n", plainContent(out[n-1]), note))
			} else {
				held = append(held, note)
			}
			continue
		case role == "user" && len(held) > 0:
			m = c.with(m, jinja.Join("\n\n", append(held, plainContent(m))...))
			held = nil
		}
		own()
		out = append(out, m)
	}
	own()
	if changed {
		c.messages = out
		c.note("the template does not accept a system message after other turns; its text was added to the user's turn as a marked note")
	}
	return changed
}

// emptyContent sets missing content of messages to an empty string.
func (c *conversation) emptyContent() bool {
	changed := false
	for _, m := range c.messages {
		if isNull(lookup(m, "content")) {
			m.Set("content", jinja.Trusted(""))
			_ = c.form.wrap(m)
			changed = true
		}
	}
	return changed
}

// foldSystem moves the system messages at the start into the following user
// turn, or into a new user turn. Later system messages become notes.
func (c *conversation) foldSystem() bool {
	c.noteSystem()
	lead := c.lead()
	if lead == 0 {
		return false
	}
	var parts []Value
	for _, m := range c.messages[:lead] {
		parts = append(parts, plainContent(m))
	}
	rest := slices.Clone(c.messages[lead:])
	if len(rest) > 0 && roleOf(rest[0]) == "user" {
		rest[0] = c.with(rest[0], jinja.Join("\n\n", append(parts, plainContent(rest[0]))...))
	} else {
		rest = slices.Insert(rest, 0, c.with(message("user", ""), jinja.Join("\n\n", parts...)))
	}
	c.messages = rest
	c.note("the template does not accept this system message; its text was added to the user's turn")
	return true
}

// with returns a copy of a message with different content.
func (c *conversation) with(m *Dict, content Value) *Dict {
	m = m.Clone()
	m.Set("content", content)
	_ = c.form.wrap(m)
	return m
}

// plainContent returns a message's content as one string.
func plainContent(m *Dict) Value {
	switch v := lookup(m, "content").(type) {
	case *jinja.Str:
		return v
	case *List:
		var texts []Value
		for i := range v.Len() {
			if d, ok := v.At(i).(*Dict); ok {
				texts = append(texts, lookup(d, "text"))
			}
		}
		return jinja.Join("\n", texts...)
	}
	return jinja.Trusted("")
}

// mergeTurns joins consecutive messages of the same role.
func (c *conversation) mergeTurns() bool {
	var out []*Dict
	for _, m := range c.messages {
		n := len(out)
		if n == 0 || roleOf(out[n-1]) != roleOf(m) || roleOf(m) == "tool" ||
			!isNull(lookup(m, "tool_calls")) || !isNull(lookup(out[n-1], "tool_calls")) {
			out = append(out, m)
			continue
		}
		out[n-1] = c.with(out[n-1], jinja.Join("\n\n", plainContent(out[n-1]), plainContent(m)))
	}
	if len(out) == len(c.messages) {
		return false
	}
	c.messages = out
	c.note("the template requires alternating roles; consecutive messages of one role were joined")
	return true
}

// splitCalls puts each tool call into a separate turn, followed by its result.
func (c *conversation) splitCalls() bool {
	var out []*Dict
	changed := false
	for i := 0; i < len(c.messages); i++ {
		m := c.messages[i]
		calls, ok := lookup(m, "tool_calls").(*List)
		if !ok || calls.Len() < 2 {
			out = append(out, m)
			continue
		}
		changed = true
		end := i + 1
		for end < len(c.messages) && roleOf(c.messages[end]) == "tool" {
			end++
		}
		results := slices.Clone(c.messages[i+1 : end])
		for k := range calls.Len() {
			one := m.Clone()
			if k > 0 {
				one = c.with(m, jinja.Trusted(""))
			}
			one.Set("tool_calls", jinja.NewList(calls.At(k)))
			out = append(out, one)
			if j := resultOf(calls.At(k), results); j >= 0 {
				out = append(out, results[j])
				results = slices.Delete(results, j, j+1)
			}
		}
		out = append(out, results...)
		i = end - 1
	}
	if changed {
		c.messages = out
		c.note("the template allows one call per turn; parallel calls were split into separate turns")
	}
	return changed
}

// resultOf finds the result of a call by the call's id, or returns the first
// result.
func resultOf(call Value, results []*Dict) int {
	d, _ := call.(*Dict)
	if id, ok := text(lookup(d, "id")); ok {
		i := slices.IndexFunc(results, func(r *Dict) bool {
			have, ok := text(lookup(r, "tool_call_id"))
			return ok && have == id
		})
		if i >= 0 {
			return i
		}
	}
	if len(results) == 0 {
		return -1
	}
	return 0
}

// reword writes calls and results as text after the template refused them, and then
// joins consecutive messages of one role.
func (c *conversation) reword() bool {
	if !c.wordCalls() {
		return false
	}
	c.mergeTurns()
	return true
}

// wordCalls writes calls as text of the assistant and results as text of the user.
func (c *conversation) wordCalls() bool {
	changed := false
	for i, m := range c.messages {
		switch {
		case roleOf(m) == "tool":
			c.messages[i] = c.resultText(m)
		case !isNull(lookup(m, "tool_calls")):
			w := message("assistant", "")
			c.messages[i] = c.with(w, jinja.Join("\n", nonEmpty(plainContent(m), callText(lookup(m, "tool_calls")))...))
		default:
			continue
		}
		changed = true
	}
	if changed {
		c.note("the template does not support tool calls; calls and results were written as text")
	}
	return changed
}

// resultText returns a call's result as a user turn.
func (c *conversation) resultText(m *Dict) *Dict {
	head := "Result of the call"
	if name, ok := text(lookup(m, "name")); ok {
		head = "Result of " + name
	}
	return c.with(message("user", ""), jinja.Join("\n", jinja.Typed(head+":"), plainContent(m)))
}

func nonEmpty(vals ...Value) []Value {
	return slices.DeleteFunc(vals, func(v Value) bool {
		s, ok := text(v)
		return ok && s == ""
	})
}

// callText writes calls in the format that inlineTools describes to the model.
func callText(calls Value) Value {
	out := jinja.NewList()
	if l, ok := calls.(*List); ok {
		for i := range l.Len() {
			d, ok := l.At(i).(*Dict)
			if !ok {
				continue
			}
			fn := function(d)
			args := lookup(fn, "arguments")
			if s, ok := text(args); ok {
				if obj, err := Decode([]byte(s)); err == nil {
					args = obj
				}
			}
			out.Append(dict("name", lookup(fn, "name"), "arguments", args))
		}
	}
	b, err := jinja.EncodeJSON(dict("tool_calls", out))
	if err != nil {
		return jinja.Trusted("")
	}
	return jinja.Typed(string(b))
}

// inlineTools describes the tools in a system message.
func (c *conversation) inlineTools() {
	list, err := jinja.EncodeJSON(c.tools)
	if err != nil {
		return
	}
	words := jinja.Join("", jinja.Trusted("You can call these functions:\n"), jinja.Typed(string(list)),
		jinja.Trusted("\nTo call functions, answer with one JSON object of this form and nothing else:\n"+
			`{"tool_calls": [{"name": "the function", "arguments": {"the parameter": "its value"}}]}`+
			"\nIf no function is needed, answer in plain words."))
	if len(c.messages) > 0 && roleOf(c.messages[0]) == "system" {
		c.messages[0] = c.with(c.messages[0], jinja.Join("\n\n", plainContent(c.messages[0]), words))
	} else {
		c.messages = slices.Insert(c.messages, 0, c.with(message("system", ""), words))
	}
	c.tools, c.inlined = nil, true
	c.note("the template does not support tools; they are described in the system message")
}
