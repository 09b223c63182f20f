// Package jinja renders chat templates: the subset of Jinja that the
// templates of language models use, with the results of Python's Jinja2 3.1.6
// in the environment that the transformers library sets up for them
// (trim_blocks, lstrip_blocks, no autoescape, loop controls, `generation`
// blocks, a tojson filter without HTML escaping, an immutable sandbox).
//
//	t, err := jinja.Parse(source, jinja.Limits{})
//	vars := jinja.NewDict()
//	vars.Set("messages", messages) // from DecodeJSON
//	pieces, err := t.Render(ctx, vars, jinja.Options{Now: time.Now()})
//
// Strings remember where they come from. Text of the template and strings
// made by Trusted are trusted; strings made by Typed are what a person typed,
// and stay marked through every operation (slicing, trimming, replacing,
// joining, formatting, JSON …). Render returns pieces whose concatenation is
// exactly what Jinja2 prints and whose marks say where special tokens may be
// looked for.
//
// Beyond Jinja2 three things are allowed that chat templates rely on
// elsewhere: list.append, list.pop and the filter from_json; and the statement
// `do`. Templates stand alone: extends, include and import do not exist, nor
// do the filters random, urlize, wordwrap and pprint.
//
// A template has no access to the host, and its work is bounded by Limits.
package jinja
