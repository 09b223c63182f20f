package page

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"

	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// machine is the device that models would be loaded on.
type machine struct {
	Backend string `json:"backend"`
	Device  string `json:"device"`
	Detail  string `json:"detail"`
	Memory  int64  `json:"memory"` // memory in bytes; 0 if unknown
	Free    int64  `json:"free"`
	Threads int    `json:"threads"`
}

func (p *Page) machine() machine {
	o, err := p.reload("")
	if err != nil || o.Driver == nil {
		return machine{}
	}
	list, err := o.Driver.Devices()
	if err != nil || o.Device >= len(list) {
		return machine{}
	}
	d := list[o.Device]
	return machine{d.Backend, d.Device, d.Detail, d.Memory, o.Memory.Free(d, ""), d.Threads}
}

// cacheType is a cache type in the panel's list. The byte counts are per token of
// the displayed model, for all layers, including padding.
type cacheType struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Group   string   `json:"group" ts:"'safe' | 'balanced' | 'small' | 'experimental'"`
	Note    string   `json:"note"`
	Bits    float64  `json:"bits"` // bits per value at head size 128
	K       side     `json:"k"`
	V       side     `json:"v"`
}

// side is the cost of a type as K or V of a model.
type side struct {
	Bytes  int    `json:"bytes"`
	Active string `json:"active,omitempty"` // type that most layers store instead
	Reason string `json:"reason,omitempty"`
}

// preset is a named pair of types as a model would use it. Its byte counts are
// the sums over its two types.
type preset struct {
	Name  string `json:"name"`
	Note  string `json:"note"`
	K     string `json:"k,omitempty"`
	V     string `json:"v,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
}

func (p *Page) cacheTypes(_ http.ResponseWriter, r *http.Request) (any, error) {
	var layers []layout.LayerInfo
	if name := r.URL.Query().Get("model"); name != "" {
		f, err := p.modelFor(name)
		if err != nil {
			return nil, err
		}
		if layers, err = layersOf(f.Path); err != nil {
			return nil, err
		}
	}
	types := make([]cacheType, 0, len(kv.Types()))
	for _, t := range kv.Types() {
		c := cacheType{Name: t.Name, Aliases: append([]string{}, t.Aliases...), Group: t.Group, Note: t.Note, Bits: t.NominalBits()}
		if layers != nil {
			var err error
			if c.K, c.V, err = cost(t, layers); err != nil {
				return nil, err
			}
		}
		types = append(types, c)
	}
	var presets []preset
	for _, x := range layout.Presets() {
		q := preset{Name: x.Name, Note: x.Note}
		if layers != nil {
			want, err := layout.PresetWant(x.Name, layers)
			if err != nil {
				return nil, err
			}
			q.K, q.V = want.K.Name, want.V.Name
			k, _, err := cost(want.K, layers)
			if err != nil {
				return nil, err
			}
			_, v, err := cost(want.V, layers)
			if err != nil {
				return nil, err
			}
			q.Bytes = k.Bytes + v.Bytes
		}
		presets = append(presets, q)
	}
	return map[string]any{"types": types, "presets": presets, "machine": p.machine()}, nil
}

// layersOf reads the cache sizes of a model's layers, at the model's maximum
// context.
func layersOf(path string) ([]layout.LayerInfo, error) {
	m, err := engine.OpenModel(path)
	if err != nil {
		return nil, err
	}
	layers, err := m.Layers(m.Config().Context)
	return layers, errors.Join(err, m.Close())
}

// cost resolves a type for both sides of a model, applying only the rules about
// the type and the head size.
func cost(t *kv.Type, layers []layout.LayerInfo) (k, v side, err error) {
	plain := 0
	l, err := layout.Resolve(layout.Want{K: t, V: t}, layers, layout.Settings{Cells: kv.PageCells, Policy: &plain, AutoAsymmetric: layout.Off, SWABypass: layout.Off})
	if err != nil {
		return k, v, err
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		for _, s := range []struct {
			out *side
			in  *layout.Side
		}{{&k, &y.K}, {&v, &y.V}} {
			s.out.Bytes += s.in.RowBytes
			if s.in.Active.Name != t.Name && s.out.Active == "" {
				s.out.Active, s.out.Reason = s.in.Active.Name, s.in.Reason
			}
		}
	}
	return k, v, nil
}

// curve is the memory of a pair of types as a function of the context length.
type curve struct {
	Name  string  `json:"name"`
	K     string  `json:"k"`
	V     string  `json:"v"`
	Bytes []int64 `json:"bytes"` // size of the cache and the recurrent states, for each length
	Most  int     `json:"most"`  // longest context that fits
}

// presetPlan is the memory that a preset would need in place of the chosen
// pair.
type presetPlan struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // size of the cache and the recurrent states
	Most  int    `json:"most"`  // longest context that fits; 0 if none fits, or if unknown
}

// outlook is the data for the panel's plot.
type outlook struct {
	Plan    layout.Plan `json:"plan"`
	Weights int64       `json:"weights"` // weights and the working memory of a step
	Context int         `json:"context"` // the model's own context length
	Lengths []int       `json:"lengths"` // context lengths up to the model's own or the planned length, whichever is larger; includes the planned length
	Curves  []curve     `json:"curves"`  // the first curve is the chosen pair
	// Presets holds the memory of each preset at the planned context.
	Presets []presetPlan `json:"presets"`
	Machine machine      `json:"machine"`
	Budget  int64        `json:"budget"` // bytes for cache and weights together; 0 if unknown
	// Exact holds the number of newest tokens that stay uncompressed at each length, if
	// the memory of one chat is set.
	Exact []int       `json:"exact"`
	Chat  memoryRange `json:"chat"`
	// Warnings holds the warnings that a load would log.
	Warnings []string `json:"warnings"`
}

// memoryRange is the memory that one chat can be given, in bytes. With Least, only the
// newest tokens stay uncompressed; with Most, all tokens do. Both are 0 if the device or
// the types do not support it.
type memoryRange struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

// planCache plans the memory of a model with settings that are not saved yet.
func (p *Page) planCache(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Model   string         `json:"model"`
		Changes map[string]any `json:"changes"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return nil, err
	}
	f, err := p.modelFor(q.Model)
	if err != nil {
		return nil, err
	}
	s, err := p.o.Settings.Settings()
	if err != nil {
		return nil, err
	}
	if s, err = s.With(q.Changes); err != nil {
		return nil, err
	}
	o, err := p.options(f.Path, &s)
	if err != nil {
		return nil, bad("%v", err)
	}
	m, err := engine.OpenModel(f.Path)
	if err != nil {
		return nil, err
	}
	out, err := p.outlook(m, f, o)
	return out, errors.Join(err, m.Close())
}

func (p *Page) outlook(m *engine.Model, f hub.Model, o engine.Options) (*outlook, error) {
	free := o.Free(f.Path)
	chosen, err := m.Planned(o, free)
	if err != nil {
		return nil, err
	}
	out := &outlook{
		Plan: chosen.Plan(f.Name), Weights: chosen.Need.Weights + chosen.Need.Scratch, Context: m.Config().Context,
		Machine: p.machine(), Budget: free, Warnings: chosen.Warnings(),
	}
	out.Lengths = lengths(max(out.Context, chosen.Context), chosen.Context)
	out.Exact = chosen.Layout.ExactAt(out.Lengths)
	if out.Chat.Least, out.Chat.Most, err = chosen.ConversationMemory(); err != nil {
		return nil, err
	}
	most := 0
	if free > 0 {
		most = min(chosen.Largest(free), out.Context)
	}
	want := chosen.Layout.Want
	out.Curves = []curve{{Name: "chosen", K: want.K.Name, V: want.V.Name, Most: most, Bytes: cacheAt(chosen, out.Lengths)}}
	plain := 0
	set := chosen.Options
	for _, t := range []*kv.Type{kv.Q8_0, kv.F16} {
		other, err := m.Prepare(engine.Options{
			Context: set.Context, Cells: set.Cells, Parallel: set.Parallel, UBatch: o.UBatch,
			Want: layout.Want{K: t, V: t}, KV: layout.Settings{Policy: &plain},
		}, 0)
		if err != nil {
			return nil, err
		}
		out.Curves = append(out.Curves, curve{Name: t.Name, K: t.Name, V: t.Name, Bytes: cacheAt(other, out.Lengths)})
	}
	out.Presets, err = presetPlans(m, chosen, free)
	return out, err
}

// presetPlans returns the memory of each preset with the options of a load.
func presetPlans(m *engine.Model, chosen *engine.Prepared, free int64) ([]presetPlan, error) {
	layers, err := m.Layers(m.Config().Context)
	if err != nil {
		return nil, err
	}
	set, list := chosen.Options, []presetPlan(nil)
	for _, x := range layout.Presets() {
		want, err := layout.PresetWant(x.Name, layers)
		if err != nil {
			return nil, err
		}
		alone := set
		alone.Want = want
		other, err := m.Prepare(alone, 0)
		if errors.Is(err, layout.ErrBudget) { // too little memory for a chat with these types
			list = append(list, presetPlan{Name: x.Name})
			continue
		}
		if err != nil {
			return nil, err
		}
		q := presetPlan{Name: x.Name, Bytes: other.CacheAt(chosen.Context)}
		if free > 0 {
			q.Most = min(other.Largest(free), m.Config().Context)
		}
		list = append(list, q)
	}
	return list, nil
}

// cacheAt returns the cache size at each length.
func cacheAt(p *engine.Prepared, lengths []int) []int64 {
	list := make([]int64, len(lengths))
	for i, n := range lengths {
		list[i] = p.CacheAt(n)
	}
	return list
}

// lengths returns the context lengths of a curve. They are evenly spaced on a
// logarithmic axis, from one page to the maximum, and include the planned
// length.
func lengths(most, planned int) []int {
	const points = 49
	list := []int{planned}
	for i := range points {
		share := float64(i) / (points - 1)
		n := int(kv.PageCells*math.Pow(float64(most)/kv.PageCells, share)) / kv.PageCells * kv.PageCells
		n = min(max(n, kv.PageCells), most)
		if i == points-1 {
			n = most
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// activeCache returns the plan of a loaded model as read back from its memory.
func (p *Page) activeCache(_ http.ResponseWriter, r *http.Request) (any, error) {
	f, err := p.modelFor(r.URL.Query().Get("model"))
	if err != nil {
		return nil, err
	}
	if p.models.Standing(f.Path).State != pool.Loaded {
		return nil, refuse(http.StatusConflict, "not_loaded", textNotLoaded, f.Name)
	}
	lease, err := p.models.Acquire(r.Context(), f, pool.Terms{})
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	return lease.Engine.Plan(r.Context(), f.Name)
}

// usage describes the part of the context that a chat uses.
type usage struct {
	Model     string `json:"model"`
	Used      int    `json:"used"`       // number of used tokens
	Context   int    `json:"context"`    // maximum number of tokens in one chat
	Reserved  int    `json:"reserved"`   // tokens reserved for the answer
	Bytes     int64  `json:"bytes"`      // size of the whole cache in bytes
	BytesUsed int64  `json:"bytes_used"` // size of the used tokens in bytes
	K         string `json:"k"`
	V         string `json:"v"`
}

func (p *Page) usage(_ http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	c, err := p.chats(chat).Chat(r.Context(), chat)
	if err != nil {
		return nil, err
	}
	path, _, err := p.chats(chat).Path(r.Context(), chat, store.Page{Limit: 8})
	if err != nil {
		return nil, err
	}
	own, _, err := readSettings(c.Settings)
	if err != nil {
		return nil, err
	}
	u := usage{Model: c.Model, Reserved: own.MaxTokens}
	for _, m := range slices.Backward(path) {
		if m.Stats.PromptTokens > 0 {
			u.Used, u.Model = m.Stats.PromptTokens+m.Stats.OutputTokens, m.Model
			break
		}
	}
	f, err := p.modelFor(u.Model)
	if s, wrong := p.o.Settings.Settings(); wrong == nil && u.Reserved == 0 {
		u.Reserved = p.o.Tuned.MaxTokens(f.Path, max(0, s.Sampling.Predict)) // -1 means no limit, and nothing is reserved
	}
	if err != nil {
		return u, nil //nolint:nilerr // the model is gone, but the used tokens are known
	}
	return u, p.measure(r.Context(), f, &u)
}

// measure sets the sizes in u to those of the loaded model's cache. If the model is not
// loaded, measure plans them.
func (p *Page) measure(ctx context.Context, f hub.Model, u *usage) error {
	if st := p.models.Standing(f.Path); st.State == pool.Loaded {
		lease, err := p.models.Acquire(ctx, f, pool.Terms{})
		if err != nil {
			return err
		}
		defer lease.Release()
		l := lease.Engine.KV()
		u.Context, u.Bytes, u.K, u.V = lease.Engine.Context(), l.Bytes(), l.Want.K.Name, l.Want.V.Name
		u.BytesUsed = min(int64(l.BytesPerToken())*int64(u.Used), u.Bytes)
		return nil
	}
	o, err := p.reload(f.Path)
	if err != nil {
		return err
	}
	m, err := engine.OpenModel(f.Path)
	if err != nil {
		return err
	}
	plan, err := m.Plan(f.Name, o)
	if err = errors.Join(err, m.Close()); err != nil {
		return err
	}
	u.Context, u.Bytes, u.K, u.V = plan.Ctx, plan.Bytes, plan.Wanted.K, plan.Wanted.V
	u.BytesUsed = plan.Bytes * int64(u.Used) / int64(max(plan.Ctx, 1))
	return nil
}
