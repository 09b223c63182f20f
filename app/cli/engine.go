package cli

import (
	"context"
	"time"

	"godwit/app/config"
	"godwit/app/device"
	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// modelArg is the MODEL of a command: a path, or a name from the library.
type modelArg struct {
	Model string `arg:"" placeholder:"MODEL" help:"Path of a GGUF file, or a name from 'godwit list'."`
}

// loadFlags are the flags of commands that run a model.
type loadFlags struct {
	config.Engine
}

// open loads a model with a progress bar.
func (r *run) open(ctx context.Context, model string, f *loadFlags) (*engine.Engine, error) {
	return r.openFor(ctx, model, f, 0)
}

// openFor loads a model like open. Unless a flag sets the context, the context
// has at least the given number of tokens.
func (r *run) openFor(ctx context.Context, model string, f *loadFlags, tokens int) (*engine.Engine, error) {
	return r.openWith(ctx, model, f, tokens, func(*engine.Options) {})
}

// openWith loads a model like openFor, after change has changed the options.
func (r *run) openWith(ctx context.Context, model string, f *loadFlags, tokens int, change func(o *engine.Options)) (*engine.Engine, error) {
	path, err := r.find(model)
	if err != nil {
		return nil, err
	}
	o, err := r.options(&f.Engine, wait)
	if err != nil {
		return nil, err
	}
	bar := r.loadBar(path, true)
	defer bar.close()
	o.Progress, o.Measuring, o.AtLeast = bar.share, bar.measured, tokens
	change(&o)
	return engine.Open(ctx, path, o)
}

// options converts settings to engine options. p decides how a GPU that has not
// been checked is treated.
func (r *run) options(c *config.Engine, p patience) (engine.Options, error) {
	o, err := r.optionsQuietly(c, p)
	if err != nil {
		return o, err
	}
	if n := c.GPULayers; n != nil && *n > 0 && o.Driver.Name() == "cpu" {
		r.log.Warn("--gpu-layers ignored on the CPU backend", "layer", *n)
	}
	if c.KVAuto > 0 && (c.CacheTypeK != "" || c.CacheTypeV != "" || c.KVPreset != "off") {
		r.log.Warn("-ctk, -ctv and --kv-preset ignored with --kv-auto")
	}
	return o, nil
}

// optionsQuietly does the same as options without log output, for the page's
// previews of settings.
func (r *run) optionsQuietly(c *config.Engine, p patience) (engine.Options, error) {
	if err := c.Validate(); err != nil {
		return engine.Options{}, usage{err}
	}
	o := engine.Options{
		Threads: c.Threads, NoRepack: c.Repack == "off", FloatAttn: c.AttnMath == "float",
		Context: c.CtxSize, Cells: c.KVCells, Parallel: c.Parallel, UBatch: c.UBatch, MaxStep: maxStep(c.MaxStep),
		SparseV: float32(c.SparseV), Preset: c.KVPreset, ContextShift: c.ContextShift, ReuseShifted: c.ReuseShifted, Log: r.log,
	}
	o.Calibrations, o.NoCalibration = r.calibrations(), !c.KVCalibrate
	o.NoMMap, o.Lock, o.Memory = !c.MMap, c.MLock, r.memory
	for _, path := range c.LoRA {
		o.LoRA = append(o.LoRA, engine.LoRA{Path: path})
	}
	if err := r.draft(&o, c); err != nil {
		return o, err
	}
	o.MMProj, o.ImageLimits = c.MMProj, engine.ImageLimits{Min: c.ImageMin, Max: c.ImageMax}
	var err error
	if o.ChatTemplates, err = chatTemplates(c.ChatTemplate); err != nil {
		return o, usage{err}
	}
	name := r.backend(c.Backend, p)
	if o.Driver, err = device.Named(name); err != nil {
		return o, usage{err}
	}
	o.Fallback = name != c.Backend
	o.GPULayers = c.GPULayers
	if o.Want, o.KV, err = cacheSettings(c); err != nil {
		return o, usage{err}
	}
	return o, nil
}

// draft sets what proposes tokens: earlier text, or a model with its own cache types.
func (r *run) draft(o *engine.Options, c *config.Engine) (err error) {
	if o.Draft.Want, err = cacheTypes(c.DraftTypeK, c.DraftTypeV); err != nil {
		return usage{err}
	}
	switch c.Draft {
	case "", "off":
	case "ngram":
		o.Drafter = engine.NGram
	default:
		o.Draft.Path, err = r.find(c.Draft)
	}
	return err
}

// maxStep converts the step limit to the engine's form, in which 0 means the
// default.
func maxStep(ms int) time.Duration {
	if ms == 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// cacheTypes returns the types with these names; nil for an empty name.
func cacheTypes(k, v string) (want layout.Want, err error) {
	if k != "" {
		if want.K, err = kv.Parse(k); err != nil {
			return want, err
		}
	}
	if v != "" {
		want.V, err = kv.Parse(v)
	}
	return want, err
}

// cacheSettings returns the cache settings in the flags.
func cacheSettings(c *config.Engine) (layout.Want, layout.Settings, error) {
	want, err := cacheTypes(c.CacheTypeK, c.CacheTypeV)
	if err != nil {
		return want, layout.Settings{}, err
	}
	s := layout.Settings{
		Policy: c.KVPolicy, BoundaryBy: c.BoundaryBy, Strict: c.KVStrict,
		InnerQ: layout.InnerQ{Groups: c.InnerQ.Groups, Strength: c.InnerQ.Strength},
		Memory: int64(c.KVMemory), ExactWindow: c.ExactWindow, ExactSinks: c.ExactSinks, AutoBits: c.KVAuto,
		AutoAsymmetric: onOff(&c.AutoAsymmetric), SWABypass: onOff(c.SWABypass), Temperature: onOff(&c.TBQTemperature),
	}
	return want, s, nil
}

// onOff converts a flag to a policy switch. nil means automatic.
func onOff(b *bool) layout.Switch {
	switch {
	case b == nil:
		return layout.Auto
	case *b:
		return layout.On
	}
	return layout.Off
}
