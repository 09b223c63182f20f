package page

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"godwit/app/api"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/store"
	"godwit/engine"
	"godwit/engine/kv"
)

// machine is the device that models would be loaded on.
type machine struct {
	Backend string `json:"backend"`
	Device  string `json:"device"`
	Detail  string `json:"detail"`
	Memory  int64  `json:"memory"` // bytes, 0: unknown
	Free    int64  `json:"free"`
	Threads int    `json:"threads"`
}

func (p *Page) machine() machine {
	o, err := p.Reload()
	if err != nil || o.Driver == nil {
		return machine{}
	}
	list, err := o.Driver.Devices()
	if err != nil || o.Device >= len(list) {
		return machine{}
	}
	d := list[o.Device]
	return machine{d.Backend, d.Device, d.Detail, d.Memory, d.Free, d.Threads}
}

// cacheType is a cache type as the panel lists it. The bytes are of one token of
// the model that is looked at, all layers together, padding included.
type cacheType struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Group   string   `json:"group"`
	Note    string   `json:"note"`
	Bits    float64  `json:"bits"` // a value, at head size 128
	K       side     `json:"k"`
	V       side     `json:"v"`
}

// side is what a type costs as K or V of a model.
type side struct {
	Bytes  int    `json:"bytes"`
	Active string `json:"active,omitempty"` // what is stored in its place in most layers
	Reason string `json:"reason,omitempty"`
}

// preset is a pair of types under a name, as a model gets it; the bytes are as
// those of its types.
type preset struct {
	Name  string `json:"name"`
	Note  string `json:"note"`
	K     string `json:"k,omitempty"`
	V     string `json:"v,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
}

func (p *Page) cacheTypes(_ http.ResponseWriter, r *http.Request) (any, error) {
	var layers []kv.LayerInfo
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
	for _, x := range kv.Presets() {
		q := preset{Name: x.Name, Note: x.Note}
		if layers != nil {
			want, err := kv.PresetWant(x.Name, layers)
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

// layersOf reads what the layers of a model keep at its own context.
func layersOf(path string) ([]kv.LayerInfo, error) {
	m, err := engine.OpenModel(path)
	if err != nil {
		return nil, err
	}
	layers, err := m.Layers(m.Config().Context)
	return layers, errors.Join(err, m.Close())
}

// cost resolves a type for both sides of a model, without the rules that look at
// more than the type and the head.
func cost(t *kv.Type, layers []kv.LayerInfo) (k, v side, err error) {
	plain := 0
	l, err := kv.Resolve(kv.Want{K: t, V: t}, layers, kv.Settings{Cells: kv.PageCells, Policy: &plain, AutoAsymmetric: kv.Off, SWABypass: kv.Off})
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
			in  *kv.SideLayout
		}{{&k, &y.K}, {&v, &y.V}} {
			s.out.Bytes += s.in.RowBytes
			if s.in.Active.Name != t.Name && s.out.Active == "" {
				s.out.Active, s.out.Reason = s.in.Active.Name, s.in.Reason
			}
		}
	}
	return k, v, nil
}

// curve is the memory of a pair of types over the length of the context.
type curve struct {
	Name  string  `json:"name"`
	K     string  `json:"k"`
	V     string  `json:"v"`
	Bytes []int64 `json:"bytes"` // of the cache and of recurrent states, for each length
	Most  int     `json:"most"`  // longest context that fits
}

// outlook is what the panel draws.
type outlook struct {
	Plan    kv.Plan `json:"plan"`
	Weights int64   `json:"weights"`
	Context int     `json:"context"` // the model's own
	Lengths []int   `json:"lengths"`
	Curves  []curve `json:"curves"` // the chosen pair first
	Machine machine `json:"machine"`
	Budget  int64   `json:"budget"` // bytes that cache and weights may take together; 0: unknown
}

// planCache says what a model would take with settings that are not saved yet.
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
	s, err := p.settings()
	if err != nil {
		return nil, err
	}
	if s, err = s.With(q.Changes); err != nil {
		return nil, err
	}
	o, err := p.o.Engine(&s.Engine)
	if err != nil {
		return nil, bad("%v", err)
	}
	m, err := engine.OpenModel(f.Path)
	if err != nil {
		return nil, err
	}
	out, err := p.outlook(m, f, o, &s)
	return out, errors.Join(err, m.Close())
}

func (p *Page) outlook(m *engine.Model, f hub.Model, o engine.Options, s *config.Settings) (*outlook, error) {
	if err := m.UseCalibration(&o); err != nil && !errors.Is(err, kv.ErrCalibration) {
		return nil, err
	}
	out := &outlook{Weights: f.Size, Context: m.Config().Context, Machine: p.machine()}
	st := p.models.Standing(f.Path)
	if out.Machine.Free > 0 {
		out.Budget = out.Machine.Free
		if st.State == api.Loaded { // its own memory would be free again
			out.Budget += st.Bytes
		}
	}
	layers, err := m.Layers(out.Context)
	if err != nil {
		return nil, err
	}
	pairs, err := compared(o, layers)
	if err != nil {
		return nil, err
	}
	out.Lengths = lengths(out.Context)
	for i, pair := range pairs {
		c := curve{Name: pair.name, K: pair.want.K.Name, V: pair.want.V.Name}
		set := o.KV
		if i > 0 {
			plain := 0
			set = kv.Settings{Policy: &plain}
		}
		for _, n := range out.Lengths {
			l, err := kv.Resolve(pair.want, layers, sized(set, o, n))
			if err != nil {
				return nil, err
			}
			c.Bytes = append(c.Bytes, l.Bytes()+l.StateTotal())
			if n == out.Lengths[0] && out.Budget > out.Weights {
				c.Most = min(l.LargestContext(out.Budget-out.Weights), out.Context)
			}
		}
		out.Curves = append(out.Curves, c)
	}
	ctx := o.Context
	if ctx == 0 {
		ctx = p.unsetContext(out, m, o)
	}
	o.Context = ctx
	if out.Plan, err = engine.PlanFile(f.Path, f.Name, o); err != nil {
		return nil, err
	}
	return out, nil
}

// unsetContext is the context that a load takes where none is set: the model's
// own, or what fits into half of the free memory.
func (p *Page) unsetContext(out *outlook, m *engine.Model, o engine.Options) int {
	if st := out.Budget; st > 0 {
		l, err := m.Layout(out.Context, o.Want, o.Preset, sized(o.KV, o, kv.PageCells))
		if err == nil {
			return min(out.Context, max(l.LargestContext(out.Machine.Free/2), min(engine.MinContext, out.Context)))
		}
	}
	return out.Context
}

// sized is settings of the cache for a number of tokens.
func sized(s kv.Settings, o engine.Options, ctx int) kv.Settings {
	s.Cells, s.Seqs, s.UBatch = ctx, o.Parallel, min(o.UBatch, ctx)
	return s
}

type pair struct {
	name string
	want kv.Want
}

// compared is the chosen pair and the two that people know.
func compared(o engine.Options, layers []kv.LayerInfo) ([]pair, error) {
	want := o.Want
	if o.Preset != "" {
		p, err := kv.PresetWant(o.Preset, layers)
		if err != nil {
			return nil, err
		}
		if want.K == nil {
			want.K = p.K
		}
		if want.V == nil {
			want.V = p.V
		}
	}
	if want.K == nil {
		want.K = kv.F16
	}
	if want.V == nil {
		want.V = kv.F16
	}
	list := []pair{{"chosen", want}}
	for _, t := range []*kv.Type{kv.Q8_0, kv.F16} {
		list = append(list, pair{t.Name, kv.Want{K: t, V: t}})
	}
	return list, nil
}

// lengths are the contexts that a curve is drawn at, from 1,024 or less to the
// model's own, evenly on a line from 0.
func lengths(most int) []int {
	const points = 33
	var list []int
	for i := range points {
		n := most * i / (points - 1) / kv.PageCells * kv.PageCells
		n = max(n, min(kv.PageCells, most))
		if i == points-1 {
			n = most
		}
		if len(list) == 0 || n > list[len(list)-1] {
			list = append(list, n)
		}
	}
	return list
}

// activeCache is the plan of a loaded model as its memory was read back.
func (p *Page) activeCache(_ http.ResponseWriter, r *http.Request) (any, error) {
	f, err := p.modelFor(r.URL.Query().Get("model"))
	if err != nil {
		return nil, err
	}
	if p.models.Standing(f.Path).State != api.Loaded {
		return nil, &refusal{http.StatusConflict, "not_loaded", f.Name + " is not loaded"}
	}
	lease, err := p.models.Acquire(r.Context(), f)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	return lease.Engine.Plan(r.Context(), f.Name)
}

// usage is how much of the context a chat takes.
type usage struct {
	Model     string `json:"model"`
	Used      int    `json:"used"`       // tokens
	Context   int    `json:"context"`    // tokens that one chat may hold
	Reserved  int    `json:"reserved"`   // tokens that are kept for an answer
	Bytes     int64  `json:"bytes"`      // of the whole cache
	BytesUsed int64  `json:"bytes_used"` // of the tokens that are used
	K         string `json:"k"`
	V         string `json:"v"`
}

func (p *Page) usage(_ http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	c, err := p.o.Store.Chat(r.Context(), chat)
	if err != nil {
		return nil, err
	}
	path, _, err := p.o.Store.Path(r.Context(), chat, store.Page{Limit: 8})
	if err != nil {
		return nil, err
	}
	own, _, err := readSettings(c.Settings)
	if err != nil {
		return nil, err
	}
	u := usage{Model: c.Model, Reserved: own.MaxTokens}
	if s, err := p.settings(); err == nil && u.Reserved == 0 {
		u.Reserved = max(0, s.Sampling.Predict) // -1: until the model ends it
	}
	for _, m := range slices.Backward(path) {
		if m.Stats.PromptTokens > 0 {
			u.Used, u.Model = m.Stats.PromptTokens+m.Stats.OutputTokens, m.Model
			break
		}
	}
	f, err := p.modelFor(u.Model)
	if err != nil {
		return u, nil //nolint:nilerr // the model has gone: what is used is known
	}
	return u, p.measure(r.Context(), f, &u)
}

// measure fills in what the model's cache holds: of the loaded one, or as it
// would be loaded.
func (p *Page) measure(ctx context.Context, f hub.Model, u *usage) error {
	if st := p.models.Standing(f.Path); st.State == api.Loaded {
		lease, err := p.models.Acquire(ctx, f)
		if err != nil {
			return err
		}
		defer lease.Release()
		l := lease.Engine.KV()
		u.Context, u.Bytes, u.K, u.V = lease.Engine.Context(), l.Bytes(), l.Want.K.Name, l.Want.V.Name
		u.BytesUsed = min(int64(l.BytesPerToken())*int64(u.Used), u.Bytes)
		return nil
	}
	s, err := p.settings()
	if err != nil {
		return err
	}
	o, err := p.o.Engine(&s.Engine)
	if err != nil {
		return err
	}
	m, err := engine.OpenModel(f.Path)
	if err != nil {
		return err
	}
	out, err := p.outlook(m, f, o, &s)
	if err = errors.Join(err, m.Close()); err != nil {
		return err
	}
	u.Context, u.Bytes, u.K, u.V = out.Plan.Ctx, out.Plan.Bytes, out.Plan.Wanted.K, out.Plan.Wanted.V
	u.BytesUsed = out.Plan.Bytes * int64(u.Used) / int64(max(out.Plan.Ctx, 1))
	return nil
}
