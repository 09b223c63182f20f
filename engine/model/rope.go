package model

import "math"

// Rope holds the rotary hyper-parameters of a model.
type Rope struct {
	Dims    int // number of rotated columns of a head
	Base    float32
	Type    string // none, linear, yarn, longrope
	Factor  float32
	Context int // context length in training, before scaling, in tokens

	BetaFast, BetaSlow float32
	Attn               float32 // factor of sine and cosine; 0 means 1
	Ext                float32 // share of YaRN's extrapolation
	// Magnitude and MagnitudeAll are mscale and mscale_all_dim of the paper's code.
	// They determine how YaRN scales sine and cosine with Factor. MagnitudeAll is 0
	// for none.
	Magnitude, MagnitudeAll float32
	// Factors divide the frequency of each pair (llama3, longrope). Factors may be
	// nil.
	Factors []float32
	// Axes selects the coordinate that rotates each pair, in rows that have
	// coordinates: time, row and column. If it is nil, the position rotates all pairs.
	Axes []uint8
	// Still marks the pairs that text does not rotate, because they belong to a
	// fourth coordinate of images. It may be nil.
	Still []bool
}

// Rope reads the rotary hyper-parameters. dims is the default width.
func (f *File) Rope(dims int) Rope {
	r := Rope{
		Dims:         f.IntOr("rope.dimension_count", dims),
		Base:         f.FloatOr("rope.freq_base", 10000),
		Type:         f.StringOr("rope.scaling.type", "linear"),
		Factor:       f.Factor("rope.scaling.factor", f.Factor("rope.scale_linear", 0)),
		Context:      f.IntOr("rope.scaling.original_context_length", f.IntOr("context_length", 0)),
		BetaFast:     f.Factor("rope.scaling.yarn_beta_fast", 32),
		BetaSlow:     f.Factor("rope.scaling.yarn_beta_slow", 1),
		Attn:         f.Factor("rope.scaling.attn_factor", 1),
		Magnitude:    1,
		MagnitudeAll: f.Factor("rope.scaling.yarn_log_multiplier", 0),
	}
	switch r.Type {
	case "none":
		r.Factor = 1
	case "linear", "longrope":
	case "yarn":
		r.Ext = 1
	default:
		f.Fail(f.key("rope.scaling.type"), "unknown scaling %.80q; known: none, linear, yarn, longrope", r.Type)
	}
	if r.Factor == 0 {
		r.Factor = 1
	}
	if r.Context == 0 {
		r.Context = f.IntOr("context_length", 0)
	}
	none := r.Dims == 0 && f.Has("rope.dimension_count")
	if none || r.Dims < 0 || r.Dims%2 != 0 || r.Dims > maxDims {
		f.Fail(f.key("rope.dimension_count"), "%d dimensions; 2 to %d in pairs are possible", r.Dims, maxDims)
		r.Dims = 2
	}
	return r
}

// Finite returns r.Table(). It calls f.Fail if a value is out of bounds or not
// finite.
func (f *File) Finite(r Rope) (freqs []float32, scale float32) {
	freqs, scale = r.Table()
	ok := r.Base > 1 && r.Base <= maxBase && scale-scale == 0
	for _, x := range freqs {
		ok = ok && x-x == 0
	}
	if !ok {
		f.Fail(f.key("rope"), "base %g, factor %g, beta %g and %g give unusable frequencies", r.Base, r.Factor, r.BetaFast, r.BetaSlow)
	}
	return freqs, scale
}

// Limits of Dims and Base. Known models have bases up to 1e11.
const (
	maxDims = 1 << 16
	maxBase = 1e16
)

// Sections reads rope.dimension_sections, which are the numbers of pairs for the time,
// height, width and a fourth coordinate of a token. It returns nil for models without
// images. For text, the first three coordinates are the position and the fourth is 0.
func (f *File) Sections() []int {
	key := f.key("rope.dimension_sections")
	a, ok := f.gguf.KV.Value(key)
	if !ok {
		return nil
	}
	v, ok := a.First(4).Ints()
	if !ok {
		f.Fail(key, "not an array of integers")
		return nil
	}
	out := make([]int, 4)
	for i, n := range v {
		if n < 0 || n > maxDims {
			f.Fail(key, "%d pairs in section %d", n, i)
			return nil
		}
		out[i] = int(n)
	}
	if out[0] == 0 || out[1] == 0 {
		return nil
	}
	return out
}

// Hold gives each pair its coordinate and marks the pairs of the fourth section.
// Interleaved sections alternate (time, height, width, time, …) until each is used up.
// Source: arXiv 2409.12191; interleaving is from Qwen3-VL.
func (r *Rope) Hold(sections []int, interleaved bool) {
	if sections == nil {
		return
	}
	all := sections[0] + sections[1] + sections[2] + sections[3]
	r.Still, r.Axes = make([]bool, r.Dims/2), make([]uint8, r.Dims/2)
	for i := range r.Still {
		at := i % all
		if interleaved {
			r.Still[i] = at >= 3*sections[at%3]
			if axis := at % 3; at < 3*sections[axis] {
				r.Axes[i] = uint8(axis)
			}
			continue
		}
		r.Still[i] = at >= all-sections[3]
		switch {
		case at >= sections[0]+sections[1]:
			r.Axes[i] = 2
		case at >= sections[0]:
			r.Axes[i] = 1
		}
	}
}

// Plain returns r without scaling and with another base, for layers with a
// window of their own.
func (r Rope) Plain(base float32) Rope {
	r.Base, r.Type, r.Factor, r.Ext, r.Attn, r.Factors = base, "none", 1, 0, 1, nil
	return r
}

// Table returns the angle of each pair at position 1 and the factor of sine and
// cosine. Source: YaRN, arXiv 2309.00071, with llama.cpp's rounding of the
// correction range to whole pairs.
func (r Rope) Table() (freqs []float32, scale float32) {
	n := r.Dims / 2
	freqs = make([]float32, n)
	interp := 1 / float64(r.Factor)
	lo, hi := r.correction(r.BetaFast, math.Floor), r.correction(r.BetaSlow, math.Ceil)
	lo, hi = max(lo, 0), min(hi, float64(r.Dims-1))
	for i := range freqs {
		f := math.Pow(float64(r.Base), -2*float64(i)/float64(r.Dims))
		if r.Factors != nil {
			f /= float64(r.Factors[i])
		}
		ramp := (float64(i) - lo) / max(0.001, hi-lo)
		ext := (1 - min(1, max(0, ramp))) * float64(r.Ext)
		freqs[i] = float32(f*interp*(1-ext) + f*ext)
		if r.Still != nil && r.Still[i] {
			freqs[i] = 0
		}
	}
	scale = r.Attn
	if scale == 0 {
		scale = 1
	}
	if r.Ext != 0 {
		scale *= r.magnitude(r.Magnitude) / r.magnitude(r.MagnitudeAll)
	}
	return freqs, scale
}

// magnitude returns 1 + 0.1·m·ln(factor), or 1 for factors of at most 1.
func (r Rope) magnitude(m float32) float32 {
	if r.Factor <= 1 {
		return 1
	}
	return float32(1 + 0.1*float64(m)*math.Log(float64(r.Factor)))
}

// correction returns the pair that makes rot full rotations over Context positions.
func (r Rope) correction(rot float32, round func(float64) float64) float64 {
	return round(float64(r.Dims) * math.Log(float64(r.Context)/(float64(rot)*2*math.Pi)) / (2 * math.Log(float64(r.Base))))
}
