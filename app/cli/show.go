package cli

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"godwit/app/hub"
	"godwit/engine"
	"godwit/engine/kv/layout"
)

type showCmd struct {
	modelArg
	Tensors  bool `help:"List the tensors."`
	Metadata bool `help:"List all metadata."`
	JSON     bool `name:"json" help:"Machine-readable output."`
}

// shown is the output of show.
type shown struct {
	Path     string            `json:"path"`
	Size     int64             `json:"size"`
	Identity string            `json:"identity"`
	Hash     string            `json:"template_hash,omitempty"`
	Info     hub.Info          `json:"info"`
	Plan     *layout.Plan      `json:"kv_plan,omitempty"`
	Problem  string            `json:"problem,omitempty"`
	Pictures *engine.Sight     `json:"pictures,omitempty"`
	Tensors  []shownTensor     `json:"tensors,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

type shownTensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
}

// Run describes a model, even one that cannot run.
func (c *showCmd) Run(r *run) error {
	path, err := r.find(c.Model)
	if err != nil {
		return err
	}
	f, err := engine.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := shown{Path: path, Size: f.Size(), Identity: fmt.Sprintf("%x", f.Identity())}
	if s.Info, err = hub.Describe(path); err != nil {
		return err
	}
	s.Hash = engine.TemplateHash(s.Info.Template)
	if plan, err := engine.PlanFile(path, r.modelName(path), engine.Options{Memory: r.memory}); err != nil {
		s.Problem = err.Error()
	} else {
		s.Plan = &plan
	}
	if sight, err := engine.SightOf(path); err == nil && sight.Family != "" {
		s.Pictures = &sight
		if sight.Projector == "" {
			s.Problem = "" // a projector is complete, although it is not a model
		}
	}
	if c.Tensors {
		for _, t := range f.Tensors {
			s.Tensors = append(s.Tensors, shownTensor{t.Name, t.Type.String(), t.Shape})
		}
	}
	if c.Metadata {
		s.Metadata = make(map[string]string)
		for k, v := range f.KV.All() {
			s.Metadata[k] = clip(v.String())
		}
	}
	if c.JSON {
		return r.json(s)
	}
	return r.printModel(&s)
}

// clip truncates long metadata.
func clip(s string) string {
	const most = 160
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func (r *run) printModel(s *shown) error {
	i := s.Info
	t := newTable("model", cmp.Or(i.Title, r.modelName(s.Path)))
	t.add("path", s.Path)
	t.add("architecture", i.Arch)
	t.add("weights", fmt.Sprintf("%s, %s, %.1f million parameters", i.Quant, size(s.Size), float64(i.Parameters)/1e6))
	t.add("context", strconv.Itoa(i.Context))
	t.add("layers", fmt.Sprintf("%d, hidden size %d, %d heads, %d KV heads of size %d", i.Layers, i.Embedding, i.Heads, i.KVHeads, i.HeadDim))
	t.add("licence", cmp.Or(i.Licence, "not stated"))
	if s.Hash != "" {
		t.add("template", s.Hash)
	} else {
		t.add("template", "none; ChatML or the template of the model's family is used")
	}
	if p := s.Pictures; p != nil {
		text := fmt.Sprintf("projector %s for models of hidden size %d, up to %d tokens per tile", p.Family, p.Width, p.Tokens)
		if p.Projector != "" {
			text = fmt.Sprintf("read with %s (%s, up to %d tokens per tile)", filepath.Base(p.Projector), p.Family, p.Tokens)
		}
		t.add("pictures", text)
	}
	if s.Problem != "" {
		t.add("problem", s.Problem)
	}
	if err := t.write(r.out); err != nil {
		return err
	}
	if s.Plan != nil {
		fmt.Fprintln(r.out)
		if err := r.printPlan(s.Plan, engine.DefaultParallel); err != nil {
			return err
		}
	}
	for _, x := range s.Tensors {
		fmt.Fprintf(r.out, "%-40s %-8s %v\n", printable(x.Name), x.Type, x.Shape)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Metadata)) {
		fmt.Fprintf(r.out, "%s = %s\n", printable(k), printable(s.Metadata[k]))
	}
	return nil
}
