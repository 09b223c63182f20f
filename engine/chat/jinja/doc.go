// Package jinja renders chat templates. It supports the subset of Jinja that
// language models' templates use, with the results of Python's Jinja2 3.1.6 in the
// environment of the transformers library (trim_blocks, lstrip_blocks, no
// autoescape, loop controls, `generation` blocks, a tojson filter without HTML
// escaping, an immutable sandbox).
//
//	t, err := jinja.Parse(source, jinja.Limits{})
//	vars := jinja.NewDict()
//	vars.Set("messages", messages) // from DecodeJSON
//	pieces, err := t.Render(ctx, vars, jinja.Options{Now: time.Now()})
//
// Strings record where they come from. Text of the template and strings made by
// Trusted are trusted. Strings made by Typed are text that a person typed, and they
// stay marked through every operation (slicing, trimming, replacing, joining,
// formatting, JSON …). Render returns pieces whose concatenation is exactly what
// Jinja2 prints. The marks of the pieces say where special tokens may be
// recognised.
//
// The package adds what chat templates use but Jinja2 or its sandbox does not
// allow: list.append, list.pop, the filter from_json and the statement `do`. A
// template cannot use other templates: extends, include and import are not
// supported, and neither are the filters random, urlize, wordwrap and pprint.
//
// Templates cannot access the host, and their work is bounded by Limits.
package jinja
