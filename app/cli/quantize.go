package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"godwit/engine/requant"
)

type quantizeCmd struct {
	In   string `arg:"" placeholder:"IN" help:"Model to read: a path, or a name from 'godwit list'."`
	Out  string `arg:"" placeholder:"OUT" help:"File to write."`
	Type string `arg:"" placeholder:"TYPE" help:"Type of the new matrices: ${quantize_types}."`
	JSON bool   `name:"json" help:"Machine-readable output."`
}

// Run writes a copy of a model whose matrices have other types.
func (c *quantizeCmd) Run(r *run) error {
	if !slices.ContainsFunc(requant.Types(), func(t string) bool { return strings.EqualFold(t, c.Type) }) {
		return usage{fmt.Errorf("unknown type %q; known: %s", c.Type, quantizeTypes())}
	}
	path, err := r.find(c.In)
	if err != nil {
		return err
	}
	bar := r.bar("writing", c.Out)
	q, err := requant.Quantize(r.ctx, path, c.Out, c.Type, bar.share)
	bar.close()
	if err != nil {
		return err
	}
	types := make(map[string]int)
	for t, n := range q.Types {
		types[t.String()] = n
	}
	if c.JSON {
		return r.json(map[string]any{"types": types, "changed": q.Changed, "before": q.Before, "after": q.After})
	}
	t := newTable("TYPE", "TENSORS")
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t.add(name, strconv.Itoa(types[name]))
	}
	if err := t.write(r.out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.out, "%d tensors changed, %s became %s\n", q.Changed, size(q.Before), size(q.After))
	return err
}

// quantizeTypes lists the types in the help text.
func quantizeTypes() string { return strings.Join(requant.Types(), ", ") }
