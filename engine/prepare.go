package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/model"
)

// Prepared is the part of a load that needs no device memory. Loads, displayed
// plans and measurements all start from a Prepared, so they agree.
type Prepared struct {
	Options Options // the given options with all defaults set
	Context int     // tokens of one sequence
	Trained int     // longest context for which the model was made, including RoPE scaling
	Layout  layout.Layout
	Sizes   backend.Sizes
	Events  []layout.Event // log lines about context, memory and cache types
	Need    backend.Memory // memory of the load

	graph  *graph.Plan
	model  *Model
	weight int64 // bytes of the weights
	ubatch int   // rows of a batch before the context limits them
	pool   bool  // compute one pooled row per text instead of logits
}

// ErrMemory is the class of errors about insufficient memory.
var ErrMemory = backend.ErrMemory

// MemoryError is returned if a load does not fit in free memory. It wraps
// ErrMemory.
type MemoryError struct {
	Context      int   // requested tokens, for all sequences together if Cells is set
	Wanted, Free int64 // bytes
	Weights      int64 // bytes of weights in Wanted
	Largest      int   // longest context that fits, or 0
	Cells        bool  // Options.Cells set the size of the cache
}

func (e *MemoryError) Error() string {
	what := "a context of"
	if e.Cells {
		what = "a cache of"
	}
	text := fmt.Sprintf("%v: %s %d tokens takes %v with the model, %v is free", ErrMemory, what, e.Context, backend.Bytes(e.Wanted), backend.Bytes(e.Free))
	switch {
	case e.Largest > 0:
		return text + fmt.Sprintf("; the largest that fits is %d tokens", e.Largest)
	case e.Weights > e.Free:
		return text + fmt.Sprintf("; the weights alone take %v", backend.Bytes(e.Weights))
	}
	return text + "; no context fits"
}

// Unwrap returns ErrMemory.
func (e *MemoryError) Unwrap() error { return ErrMemory }

// Prepare makes all decisions about a load that need no device memory. It reads no
// weights and has no side effects. If the options leave the context open, Prepare
// shortens it to what fits in half of the free bytes, but not below MinContext if that
// fits. If free is 0, the free memory is unknown and the load is not compared with it.
// If only memory is lacking, the error is a *MemoryError and the returned Prepared is
// still complete.
func (m *Model) Prepare(o Options, free int64) (*Prepared, error) {
	if o.Draft.Path == "" || m.Config().Embedding {
		return m.prepare(o, free, false)
	}
	return m.prepareDrafted(o, free)
}

// prepareDrafted is Prepare for a load with a draft model, which has the same context.
func (m *Model) prepareDrafted(o Options, free int64) (p *Prepared, err error) {
	d, err := OpenModel(o.Draft.Path)
	if err != nil {
		return nil, draftError(o.Draft.Path, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if o.draft, err = d.Planned(o.forDraft(MinContext), 0); err != nil {
		return nil, draftError(o.Draft.Path, err)
	}
	p, err = m.prepare(o, free, false)
	if p == nil {
		return nil, err
	}
	var failed error
	if p.Options.draft, failed = d.Planned(o.forDraft(p.Context), 0); failed != nil {
		return nil, draftError(o.Draft.Path, failed)
	}
	return p, err
}

// totalAt returns the memory of a load with another context, including its draft model.
func (p *Prepared) totalAt(ctx int) int64 {
	n := p.needAt(ctx).Total()
	if d := p.Options.draft; d != nil {
		n += d.needAt(ctx).Total()
	}
	return n
}

// prepare is Prepare. With pool, it prepares the second program, which embeds texts
// with weights that are already loaded.
func (m *Model) prepare(o Options, free int64, pool bool) (*Prepared, error) {
	if o.Context < 0 || o.Cells < 0 || o.Parallel < 0 || o.UBatch < 0 {
		return nil, errors.New("context, cells, parallel sequences and batch must not be negative")
	}
	asked, ctx := o.Context, m.Config().Context
	o = m.filled(o)
	if m.Config().WholeText() {
		ctx = min(ctx, embeddingContext)
	}
	own := ctx
	if ctx = max(ctx, o.AtLeast); asked > 0 {
		ctx = asked
	}
	p, err := m.sized(o, ctx, pool)
	var small *layout.BudgetError
	if errors.As(err, &small) && asked == 0 && small.Largest >= max(o.AtLeast, kv.PageCells) {
		own = min(own, small.Largest)
		if p, err = m.sized(o, own, pool); err == nil {
			p.note(slog.LevelInfo, "context cut to what fits in the memory of a conversation", slog.Int("ctx", own), slog.Int("model_ctx", ctx))
		}
		ctx = own
	}
	if err != nil {
		return nil, err
	}
	if asked == 0 && free > 0 {
		if n := p.open(own, free); n < ctx {
			if p, err = m.sized(o, n, pool); err != nil {
				return nil, err
			}
			p.note(slog.LevelInfo, "context cut to what fits in half of the free memory", slog.Int("ctx", n), slog.Int("model_ctx", own))
		}
	}
	if p.Context > p.Trained {
		p.note(slog.LevelWarn, "the context is longer than the model was trained for, answers beyond that length are unreliable", slog.Int("ctx", p.Context), slog.Int("trained", p.Trained))
	}
	p.Events = append(p.Events, p.Layout.Events...)
	if lack := p.lack(free); lack != nil {
		p.note(slog.LevelWarn, lack.Error())
		return p, lack
	}
	return p, nil
}

// filled returns the options with defaults for all unset options, and without
// options that do not apply to embedding models.
func (m *Model) filled(o Options) Options {
	if o.Parallel == 0 {
		o.Parallel = DefaultParallel
	}
	if o.UBatch == 0 {
		o.UBatch = DefaultUBatch
	}
	if !m.Config().Embedding {
		return o
	}
	o.Parallel, o.Preset = 1, ""
	if o.Want.K == nil {
		o.Want.K = kv.F32
	}
	if o.Want.V == nil {
		o.Want.V = kv.F32
	}
	s := &o.KV // these models are never measured
	s.Calibration, s.Uncalibrated, s.SelfCalibrate, s.CalibratedLater = nil, false, false, false
	s.InnerQ, s.Equalised = layout.InnerQ{}, nil
	s.Memory = 0
	return o
}

// sized computes the layout for a context.
func (m *Model) sized(o Options, ctx int, pool bool) (*Prepared, error) {
	g, err := m.plan(model.Inputs{
		Context: ctx, Pool: pool, Pictures: m.projector != nil && !pool,
		Hidden: o.Hidden && !pool, Encoded: m.encoded,
	})
	if err != nil {
		return nil, err
	}
	p := &Prepared{Options: o, Context: ctx, Trained: m.reach(), graph: g, model: m, ubatch: o.UBatch, pool: pool}
	o.Context, o.UBatch = ctx, p.rows(ctx)
	s := o.KV
	s.Cells, s.Seqs, s.UBatch, s.Admitted = o.Cells, o.Parallel, o.UBatch, true
	if s.Cells == 0 {
		s.Cells = ctx
	}
	s.Reach, s.Undivided = ctx, p.undivided()
	p.Options = o
	if p.Layout, err = m.layout(g, ctx, o.Want, o.Preset, s); err != nil {
		return nil, err
	}
	if err := holds(&p.Layout, m.hostLayers(o), o.Driver); err != nil {
		return nil, err
	}
	p.Sizes = backend.Sizes{Rows: o.UBatch, Outputs: m.outputs(o), Slots: p.Layout.StateSlots(), SparseV: o.SparseV}
	if pool {
		p.Sizes.Outputs = 1
	} else {
		p.weight = m.weightBytes(g, o)
	}
	for _, g := range p.Layout.Groups {
		p.Sizes.Pages = append(p.Sizes.Pages, g.Pages)
	}
	p.Need = p.needAt(ctx)
	return p, nil
}

// outputs returns the number of rows of a batch that can have results.
func (m *Model) outputs(o Options) int {
	if m.Config().WholeText() && (m.Config().Whole || o.Hidden) {
		return o.UBatch
	}
	return max(outputs, o.Parallel)
}

// width returns the number of values in a result row.
func (p *Prepared) width() int { return p.graph.Values[p.graph.Output].Width }

// rows returns the number of rows of a batch at a context. For a model with
// bidirectional attention, it is the whole text.
func (p *Prepared) rows(ctx int) int {
	if p.model.Config().WholeText() {
		return ctx
	}
	n := p.ubatch
	if x := p.model.projector; x != nil && x.Whole { // room for one tile, and a row for each sequence
		n = max(n, x.LargestTile(p.Options.ImageLimits)+p.Options.Parallel)
	}
	return min(n, max(ctx, 1))
}

// undivided returns the largest number of rows that must be read in one step, or 0
// without such rows.
func (p *Prepared) undivided() int {
	if x := p.model.projector; x != nil && x.Whole {
		return x.LargestTile(p.Options.ImageLimits)
	}
	return 0
}

// holds returns an error if the chosen device has no kernel for the cache of a layer that
// it would run.
func holds(l *layout.Layout, onHost int, driver backend.Driver) error {
	d, ok := driver.(backend.Holder)
	if !ok {
		return nil
	}
	part := l.Slice(onHost, len(l.Layers))
	return d.Holds(&part)
}

// weightBytes returns the memory that the weights of a plan take on the device.
func (m *Model) weightBytes(g *graph.Plan, o Options) int64 {
	var d backend.Driver = cpu.Driver{}
	if onDevice(o) {
		d = o.Driver
	}
	if w, ok := d.(backend.Weigher); ok {
		return w.WeightBytes(g, o.backend())
	}
	return m.File.Size()
}

// onDevice reports whether the driver of the options runs any layer.
func onDevice(o Options) bool { return o.Driver != nil && (o.GPULayers == nil || *o.GPULayers > 0) }

// backend returns the options for opening the device.
func (o Options) backend() backend.Options {
	return backend.Options{Threads: o.Threads, NoRepack: o.NoRepack, FloatAttn: o.FloatAttn, Lock: o.Lock, Unchecked: o.Unchecked}
}

// needAt returns the memory of a load with another context.
func (p *Prepared) needAt(ctx int) backend.Memory {
	steps := make([]int, len(p.graph.Nodes))
	for i := range steps {
		steps[i] = i
	}
	first, last := p.graph.Lifetimes(steps)
	scratch := p.graph.PlanMemory(p.rows(ctx), p.Sizes.Outputs, first, last)
	state := p.Layout.StateTotal()
	return backend.Memory{
		Weights: p.weight, State: state, Cache: p.CacheAt(ctx) - state, Scratch: 4 * int64(scratch.Size),
	}
}

// CacheAt returns the bytes of the cache and the recurrent states for a context
// length.
func (p *Prepared) CacheAt(ctx int) int64 {
	if n := p.Options.Cells; n > 0 {
		return p.Layout.BytesAt(n, p.rows(ctx))
	}
	return p.Layout.BytesAt(ctx, p.rows(ctx))
}

// Largest returns the longest context, a multiple of a page, that fits in free
// bytes, or 0 if none does.
func (p *Prepared) Largest(free int64) int {
	return layout.Largest(p.totalAt, free)
}

// open returns the context of a load whose options set none. It is the model's own
// context, or what fits in half of the free memory, but at least MinContext if that fits
// at all.
func (p *Prepared) open(own int, free int64) int {
	half := layout.Largest(p.CacheAt, free/2)
	n := min(own, max(half, MinContext))
	if most := p.Largest(free); most > 0 {
		n = min(n, most)
	}
	return max(n, p.Options.AtLeast)
}

// lack returns the error for a load that does not fit in free memory, or nil if it
// fits.
func (p *Prepared) lack(free int64) error {
	wanted := p.totalAt(p.Context)
	if free <= 0 || wanted <= free {
		return nil
	}
	e := &MemoryError{Context: p.Context, Wanted: wanted, Free: free, Weights: p.Need.Weights}
	most := p.Largest
	if p.Options.Cells > 0 {
		e.Cells, e.Context = true, p.Options.Cells
		fixed := wanted - p.CacheAt(p.Context)
		most = func(free int64) int {
			return layout.Largest(func(n int) int64 { return p.Layout.BytesAt(n, p.Options.UBatch) }, free-fixed)
		}
	}
	e.Largest = most(free)
	return e
}

func (p *Prepared) note(level slog.Level, text string, attrs ...slog.Attr) {
	p.Events = append(p.Events, layout.Event{Level: level, Text: text, Attrs: attrs})
}

// Plan describes the cache for a model of the given name.
func (p *Prepared) Plan(name string) Plan {
	plan := layout.NewPlan(&p.Layout, name, p.Context)
	plan.Trained = p.Trained
	plan.Events = plan.Events[:0]
	for _, e := range p.Events {
		plan.Events = append(plan.Events, e.String())
	}
	if d := p.Options.draft; d != nil {
		of := d.Plan(strings.TrimSuffix(filepath.Base(d.model.Path), ".gguf"))
		plan.Draft = &of
	}
	return plan
}

// Warnings returns the warnings of a load as sentences.
func (p *Prepared) Warnings() []string {
	list := []string{}
	for _, e := range p.Events {
		if e.Level >= slog.LevelWarn {
			list = append(list, e.String())
		}
	}
	return list
}

// reach returns the longest context for which the model was made: the trained
// length, or the length that RoPE scaling in the file extends it to.
func (m *Model) reach() int {
	trained := m.Config().Context
	get := func(key string) float64 {
		v, _ := m.File.KV.Float(m.File.Arch() + ".rope." + key)
		return v
	}
	if kind, _ := m.File.KV.String(m.File.Arch() + ".rope.scaling.type"); kind == "none" {
		return trained
	}
	factor := max(get("scaling.factor"), get("scale_linear"))
	from := float64(trained)
	if n, ok := m.File.KV.Uint(m.File.Arch() + ".rope.scaling.original_context_length"); ok && n > 0 {
		from = float64(n)
	}
	if reach := from * factor; reach > float64(trained) && reach < 1<<31 {
		return int(reach)
	}
	return trained
}

// Free returns the memory for a load with these options, including what the model
// at path would free if it is loaded. 0 means that the free memory is unknown until
// the device is opened.
func (o Options) Free(path string) int64 {
	var d backend.Driver = cpu.Driver{}
	device := 0
	if onDevice(o) {
		d, device = o.Driver, o.Device
	}
	list, err := d.Devices()
	if err != nil || device >= len(list) {
		return 0 // the load reports what is wrong
	}
	return o.Memory.Free(list[device], path)
}

// Plan returns the plan of a load with these options on this machine, from the file and
// its saved calibration. If the load does not fit in free memory, an event of the plan
// says so.
func (m *Model) Plan(name string, o Options) (Plan, error) {
	p, err := m.Planned(o, o.Free(m.Path))
	if err != nil {
		return Plan{}, err
	}
	return p.Plan(name), nil
}

// Planned is Prepare for a plan to display. It uses the saved calibration, and
// insufficient memory is not an error.
func (m *Model) Planned(o Options, free int64) (*Prepared, error) {
	o, err := m.WithCalibration(o)
	if err != nil && !errors.Is(err, layout.ErrCalibration) {
		return nil, err
	}
	p, err := m.Prepare(o, free)
	if errors.As(err, new(*MemoryError)) {
		err = nil
	}
	return p, err
}

// PlanFile is Model.Plan for a file that is not open.
func PlanFile(path, name string, o Options) (Plan, error) {
	m, err := OpenModel(path)
	if err != nil {
		return Plan{}, err
	}
	p, err := m.Plan(name, o)
	return p, errors.Join(err, m.Close())
}

// Fits returns a *MemoryError if loading a file does not fit in free bytes. It
// loads nothing. If free is 0, every load fits.
func Fits(path string, o Options, free int64) error {
	m, err := OpenModel(path)
	if err != nil {
		return err
	}
	if o, err = m.WithCalibration(o); err == nil || errors.Is(err, layout.ErrCalibration) {
		_, err = m.Prepare(o, free)
	}
	return errors.Join(err, m.Close())
}
