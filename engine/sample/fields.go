package sample

import "math"

// maxCount limits the parameters that count tokens.
const maxCount = math.MaxInt32

// mass replaces 0 from a client by the smallest mass, which keeps one token.
func mass(v float64) float64 {
	if v == 0 {
		return math.SmallestNonzeroFloat64
	}
	return v
}

var fields = []Field{
	{
		Name: "repeat_penalty", Flag: "repeat-penalty", Aliases: []string{"repetition_penalty", "penalty_repeat"},
		Help: "Discourages repeating recent tokens; 1 is off.", Max: 10, Default: 1,
		get: func(p *Params) float64 { return p.RepeatPenalty },
		set: func(p *Params, v float64) { p.RepeatPenalty = v },
	},
	{
		Name: "frequency_penalty", Flag: "frequency-penalty", Aliases: []string{"penalty_freq"},
		Help: "Penalty that grows with each repetition of a token.", Min: -2, Max: 2,
		get: func(p *Params) float64 { return p.FrequencyPenalty },
		set: func(p *Params, v float64) { p.FrequencyPenalty = v },
	},
	{
		Name: "presence_penalty", Flag: "presence-penalty", Aliases: []string{"penalty_present"},
		Help: "Penalty for every token that was used before.", Min: -2, Max: 2,
		get: func(p *Params) float64 { return p.PresencePenalty },
		set: func(p *Params, v float64) { p.PresencePenalty = v },
	},
	{
		Name: "repeat_last_n", Flag: "repeat-last-n", Aliases: []string{"penalty_last_n"},
		Help: "Number of recent tokens that the penalties cover; 0 is off, -1 is all of them.", Integer: true, Min: -1, Max: maxCount, Default: 64,
		get: func(p *Params) float64 { return float64(p.RepeatLastN) },
		set: func(p *Params, v float64) { p.RepeatLastN = int(v) },
	},
	{
		Name: "dry_multiplier", Flag: "dry-multiplier",
		Help: "Strength of the penalty on tokens that continue a repeated passage; 0 is off.", Max: 100,
		get: func(p *Params) float64 { return p.DRYMultiplier },
		set: func(p *Params, v float64) { p.DRYMultiplier = v },
	},
	{
		Name: "dry_base", Flag: "dry-base",
		Help: "Growth of the DRY penalty with each repeated token.", Min: 1, Max: 100, Default: dryBase,
		get: func(p *Params) float64 { return p.DRYBase },
		set: func(p *Params, v float64) { p.DRYBase = v },
	},
	{
		Name: "dry_allowed_length", Flag: "dry-allowed-length",
		Help: "DRY does not penalise repetitions shorter than this number of tokens.", Integer: true, Min: 1, Max: maxCount, Default: dryAllowed,
		get: func(p *Params) float64 { return float64(p.DRYAllowedLength) },
		set: func(p *Params, v float64) { p.DRYAllowedLength = int(v) },
	},
	{
		Name: "dry_penalty_last_n", Flag: "dry-penalty-last-n",
		Help: "Number of recent tokens that DRY searches; 0 is off, -1 is all of them.", Integer: true, Min: -1, Max: maxCount, Default: -1,
		get: func(p *Params) float64 { return float64(p.DRYLastN) },
		set: func(p *Params, v float64) { p.DRYLastN = int(v) },
	},
	{
		Name: "top_k", Flag: "top-k",
		Help: "Keeps the k likeliest tokens; 0 or -1 is off.", Integer: true, Min: -1, Max: maxCount, Default: 40,
		get: func(p *Params) float64 { return float64(p.TopK) },
		set: func(p *Params, v float64) { p.TopK = int(v) },
	},
	{
		Name: "typical_p", Flag: "typical", Aliases: []string{"typ_p"},
		Help: "Keeps the most typical tokens that together reach this probability; 1 is off.", Max: 1, Default: 1,
		get: func(p *Params) float64 { return p.TypicalP },
		set: func(p *Params, v float64) { p.TypicalP = mass(v) },
	},
	{
		Name: "top_p", Flag: "top-p",
		Help: "Keeps the likeliest tokens that together reach this probability; 1 is off.", Max: 1, Default: 0.95,
		get: func(p *Params) float64 { return p.TopP },
		set: func(p *Params, v float64) { p.TopP = mass(v) },
	},
	{
		Name: "min_p", Flag: "min-p",
		Help: "Drops tokens that are less likely than this share of the likeliest token; 0 is off.", Max: 1, Default: 0.05,
		get: func(p *Params) float64 { return p.MinP },
		set: func(p *Params, v float64) { p.MinP = v },
	},
	{
		Name: "xtc_probability", Flag: "xtc-probability",
		Help: "Chance of skipping the likeliest tokens; 0 is off.", Max: 1,
		get: func(p *Params) float64 { return p.XTCProbability },
		set: func(p *Params, v float64) { p.XTCProbability = v },
	},
	{
		Name: "xtc_threshold", Flag: "xtc-threshold",
		Help: "Probability from which a token is a top choice; above 0.5 is off.", Max: 1, Default: xtcThreshold,
		get: func(p *Params) float64 { return p.XTCThreshold },
		set: func(p *Params, v float64) { p.XTCThreshold = v },
	},
	{
		Name: "temperature", Flag: "temp",
		Help: "Higher values are more creative, lower values more focused; 0 always picks the likeliest token.", Max: 2, Default: 0.8,
		get: func(p *Params) float64 { return p.Temperature },
		set: func(p *Params, v float64) { p.Temperature = v },
	},
	{
		Name: "seed", Flag: "seed",
		Help: "The same seed gives the same response; -1 uses a new seed each time.", Integer: true, Min: math.MinInt64, Max: math.MaxInt64, Default: -1,
		get: func(p *Params) float64 { return float64(p.Seed) },
		set: func(p *Params, v float64) {
			if v >= math.MaxInt64 { // 2⁶³ as a float
				p.Seed = math.MaxInt64
			} else {
				p.Seed = int64(v)
			}
		},
	},
}
