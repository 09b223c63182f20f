package model

import "math"

// Rope are the rotary hyper-parameters of a model.
type Rope struct {
	Dims    int // rotated columns of a head
	Base    float32
	Type    string // none, linear, yarn, longrope
	Factor  float32
	Context int // trained length before scaling

	BetaFast, BetaSlow float32
	Attn               float32 // multiplies sine and cosine; 0: 1
	Ext                float32 // share of YaRN's extrapolation
	// Factors divide the frequency of each pair (llama3, longrope); may be nil.
	Factors []float32
}

// Rope reads the rotary hyper-parameters; dims is the default width.
func (f *File) Rope(dims int) Rope {
	r := Rope{
		Dims:     f.IntOr("rope.dimension_count", dims),
		Base:     f.FloatOr("rope.freq_base", 10000),
		Type:     f.StringOr("rope.scaling.type", ""),
		Factor:   f.FloatOr("rope.scaling.factor", 0),
		Context:  f.IntOr("rope.scaling.original_context_length", f.IntOr("context_length", 0)),
		BetaFast: f.FloatOr("rope.scaling.yarn_beta_fast", 32),
		BetaSlow: f.FloatOr("rope.scaling.yarn_beta_slow", 1),
		Attn:     f.FloatOr("rope.scaling.attn_factor", 1),
	}
	if r.Factor == 0 {
		r.Factor = f.FloatOr("rope.scale_linear", 0)
		if r.Factor != 0 && r.Type == "" {
			r.Type = "linear"
		}
	}
	switch r.Type {
	case "", "none":
		r.Factor = 1
	case "linear", "longrope":
	case "yarn":
		r.Ext = f.FloatOr("rope.scaling.yarn_ext_factor", 1)
		r.Attn *= f.FloatOr("rope.scaling.yarn_attn_factor", 1)
	default:
		f.Fail(f.key("rope.scaling.type"), "unknown scaling %q; known: none, linear, yarn, longrope", r.Type)
	}
	if r.Factor == 0 {
		r.Factor = 1
	}
	if r.Dims < 0 || r.Dims%2 != 0 || r.Base <= 0 || r.Factor < 0 || r.Context < 0 {
		f.Fail(f.key("rope"), "dimensions %d, base %g, factor %g", r.Dims, r.Base, r.Factor)
		r.Dims = 2
	}
	return r
}

// Table returns the angle of each pair at position 1 and the factor on sine
// and cosine. Source: YaRN, arXiv 2309.00071, with llama.cpp's rounding of the
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
	}
	scale = r.Attn
	if scale == 0 {
		scale = 1
	}
	if r.Ext != 0 {
		scale *= float32(1 + 0.1*math.Log(float64(r.Factor)))
	}
	return freqs, scale
}

// correction is the pair that turns rot times over the trained length.
func (r Rope) correction(rot float32, round func(float64) float64) float64 {
	return round(float64(r.Dims) * math.Log(float64(r.Context)/(float64(rot)*2*math.Pi)) / (2 * math.Log(float64(r.Base))))
}
