// Package sample turns a row of logits into the next token.
//
// A [Sampler] belongs to one sequence. It is built from [Params], told every
// token of the sequence by Accept, and asked for the next one by Sample. The
// chain runs in llama.cpp's order:
//
//	logit bias → repetition penalties → DRY → top-k → typical-p → top-p →
//	min-p → XTC → temperature → draw
//
// A grammar takes part by its mask: tokens outside it are not candidates, so
// every step of the chain sees a distribution over the allowed ones only.
// Temperature 0 takes the most likely candidate after bias, penalties and DRY;
// of equals the lowest id. The result depends on the logits, the history and
// the seed alone: all arithmetic is written so that no compiler may fuse or
// reorder it, and one seed gives the same tokens on every platform.
package sample

import (
	"errors"
	"fmt"
	"math"

	"godwit/engine/llm"
)

var (
	// ErrParam is wrapped by every error about a parameter that is out of
	// range.
	ErrParam = errors.New("invalid sampling parameter")
	// ErrLogits is wrapped by every error about logits that cannot be sampled.
	ErrLogits = errors.New("logits cannot be sampled")
)

// Params are the settings of a chain. The zero value is greedy, with every step
// off. A step that is on uses the defaults for its details that are zero
// (DRYBase, DRYAllowedLength, XTCThreshold). [Defaults] returns the values that
// a request starts from.
type Params struct {
	Temperature float64 // divides the logits; 0: greedy
	TopK        int     // keeps the k most likely tokens; 0 or less: off
	TopP        float64 // keeps the most likely tokens with this total probability; 0 or 1: off
	MinP        float64 // keeps tokens with at least this share of the top probability; 0: off
	TypicalP    float64 // keeps the most typical tokens with this total probability; 0 or 1: off

	RepeatPenalty    float64 // divides positive logits of seen tokens and multiplies negative ones; 0 or 1: off
	FrequencyPenalty float64 // subtracted from a logit for each time its token was seen
	PresencePenalty  float64 // subtracted from a logit once if its token was seen
	RepeatLastN      int     // number of newest tokens for the penalties; 0: none, -1: all

	DRYMultiplier    float64  // strength of the penalty on tokens that would continue a repetition; 0: off
	DRYBase          float64  // growth of that penalty per repeated token; 0: 1.75
	DRYAllowedLength int      // repetitions up to this length are not penalised; 0: 2
	DRYLastN         int      // number of newest tokens to search for repetitions; 0: none, -1: all
	DRYBreakers      []string // texts at which a repetition ends

	XTCProbability float64 // probability that a draw drops the top choices; 0: off
	XTCThreshold   float64 // minimum probability of a top choice; 0: 0.1, above 0.5: off

	Seed      int64                 // seed of the draws; -1: a new one each time, see Sampler.Seed
	LogitBias map[llm.Token]float64 // added to a logit; -Inf bans the token
}

// Defaults returns the values that a request starts from, which are
// llama.cpp's.
func Defaults() Params {
	p := Params{DRYBreakers: []string{"\n", ":", "\"", "*"}}
	for _, f := range fields {
		f.set(&p, f.Default)
	}
	return p
}

// Field describes one numeric parameter. The command line, the API and the
// panel read names, ranges, defaults and help texts from here.
type Field struct {
	Name     string   // in JSON: top_k
	Flag     string   // on the command line: top-k
	Aliases  []string // other JSON names that clients use
	Help     string
	Integer  bool
	Min, Max float64 // bounds, both allowed
	Default  float64

	get func(*Params) float64
	set func(*Params, float64)
}

// Fields returns all numeric parameters in the order of the chain. The two that
// are not single numbers, LogitBias and DRYBreakers, have no Field.
func Fields() []Field { return append([]Field(nil), fields...) }

// Lookup finds a field by its JSON name, an alias or its flag.
func Lookup(name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name || f.Flag == name {
			return f, true
		}
		for _, a := range f.Aliases {
			if a == name {
				return f, true
			}
		}
	}
	return Field{}, false
}

// Value returns the parameter's value in p.
func (f Field) Value(p *Params) float64 { return f.get(p) }

// Check reports whether v is an allowed value of this parameter.
func (f Field) Check(v float64) error {
	if !(v >= f.Min && v <= f.Max) {
		return fmt.Errorf("%w: %s is %v, want %v to %v", ErrParam, f.Name, v, f.Min, f.Max)
	}
	if f.Integer && v != math.Trunc(v) {
		return fmt.Errorf("%w: %s is %v, want a whole number", ErrParam, f.Name, v)
	}
	return nil
}

// Set stores v in p with the meaning that clients use: a top_p or typical_p of
// 0 keeps one token, while 0 in the struct means off.
func (f Field) Set(p *Params, v float64) error {
	if err := f.Check(v); err != nil {
		return err
	}
	f.set(p, v)
	return nil
}

// maxBias is the limit of a logit bias, as in OpenAI's API.
const maxBias = 100

// Validate returns an error for the first parameter that is out of range.
func (p *Params) Validate() error {
	for _, f := range fields {
		v := f.get(p)
		if v == 0 && f.Min > 0 {
			continue // zero means the step's default
		}
		if err := f.Check(v); err != nil {
			return err
		}
	}
	for tok, b := range p.LogitBias {
		if tok < 0 {
			return fmt.Errorf("%w: logit_bias has the token %d, which is negative", ErrParam, tok)
		}
		if !(b >= -maxBias && b <= maxBias) && !math.IsInf(b, -1) {
			return fmt.Errorf("%w: logit_bias of token %d is %v, want %d to %d", ErrParam, tok, b, -maxBias, maxBias)
		}
	}
	if n := len(p.DRYBreakers); n > maxBreakers {
		return fmt.Errorf("%w: dry_sequence_breakers has %d entries; the limit is %d", ErrParam, n, maxBreakers)
	}
	for i, b := range p.DRYBreakers {
		if len(b) == 0 || len(b) > maxBreakerBytes {
			return fmt.Errorf("%w: dry_sequence_breakers entry %d has %d bytes, want 1 to %d", ErrParam, i, len(b), maxBreakerBytes)
		}
	}
	return nil
}
