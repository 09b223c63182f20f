package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"

	"godwit/engine"
	"godwit/engine/llm"
)

// Sampling holds the sampling parameters of a request, under the names in the
// engine's table. It is embedded in requests.
type Sampling struct {
	set  []value
	seed *int64
	bias map[llm.Token]float64
	text []bias
	stop []string // dry_sequence_breakers
	dry  bool

	reuse reuse
}

type value struct {
	field engine.SamplingField
	x     float64
}

// bias is a logit bias on a text instead of a token.
type bias struct {
	text string
	x    float64
}

// MaxBias limits the size of a logit bias.
const MaxBias = 100

const maxBiases = 4096

// decode reads the parameters from an object.
func (s *Sampling) decode(object map[string]json.RawMessage, path string) error {
	for _, f := range engine.SamplingFields() {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			raw := object[name]
			if IsNull(raw) {
				continue
			}
			if err := s.decodeField(f, raw, join(path, name)); err != nil {
				return err
			}
		}
	}
	if raw := object["logit_bias"]; !IsNull(raw) {
		if err := s.decodeBias(raw, join(path, "logit_bias")); err != nil {
			return err
		}
	}
	if raw := object["dry_sequence_breakers"]; !IsNull(raw) {
		var list Strings
		if err := list.DecodeWire(raw, join(path, "dry_sequence_breakers")); err != nil {
			return err
		}
		s.stop, s.dry = list, true
	}
	return s.reuse.decode(object, path)
}

func (s *Sampling) decodeField(f engine.SamplingField, raw json.RawMessage, path string) error {
	if f.Name == "seed" {
		n, err := Seed(raw, path)
		s.seed = &n
		return err
	}
	x, err := Number(raw, path, &f.Min, &f.Max)
	if err == nil && f.Integer && x != math.Trunc(x) {
		err = Bad(path, "%v is not a whole number", x)
	}
	s.set = append(s.set, value{f, x})
	return err
}

// Seed reads a 64-bit seed, signed or unsigned. 2^64-1 has the same bits as -1,
// which requests a random seed, so it becomes another seed.
func Seed(raw json.RawMessage, path string) (int64, error) {
	if u, err := strconv.ParseUint(string(bytes.TrimSpace(raw)), 10, 64); err == nil {
		if u == math.MaxUint64 {
			return math.MinInt64, nil
		}
		return int64(u), nil
	}
	return Integer(raw, path, nil, nil)
}

// decodeBias reads {"token": bias} or [[token or text, bias or false], …].
func (s *Sampling) decodeBias(raw json.RawMessage, path string) error {
	s.bias = map[llm.Token]float64{}
	if Kind(raw) == "a list" {
		return s.decodeBiasList(raw, path)
	}
	if Kind(raw) != "an object" {
		return Bad(path, "want an object of token ids, got %s", Kind(raw))
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return Bad(path, "%v", err)
	}
	if len(object) > maxBiases {
		return Bad(path, "%d entries are too many; the limit is %d", len(object), maxBiases)
	}
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		at := join(path, clip(key))
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return Bad(at, "want a token id")
		}
		x, err := biasValue(object[key], at)
		if err != nil {
			return err
		}
		s.bias[llm.Token(id)] = x
	}
	return nil
}

func (s *Sampling) decodeBiasList(raw json.RawMessage, path string) error {
	list, err := List(raw, path)
	if err != nil {
		return err
	}
	if len(list) > maxBiases {
		return Bad(path, "%d entries are too many; the limit is %d", len(list), maxBiases)
	}
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		pair, err := List(item, at)
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return Bad(at, "want a pair of token and bias, got %d values", len(pair))
		}
		x, err := biasValue(pair[1], at)
		if err != nil {
			return err
		}
		if Kind(pair[0]) == "a string" {
			text, err := Text(pair[0], at)
			if err != nil {
				return err
			}
			s.text = append(s.text, bias{text, x})
			continue
		}
		id, err := Integer(pair[0], at, new(float64), nil)
		if err != nil {
			return err
		}
		if id > math.MaxInt32 {
			return Bad(at, "%d is too large for a token id", id)
		}
		s.bias[llm.Token(id)] = x
	}
	return nil
}

// biasValue reads a number, or false, which bans the token.
func biasValue(raw json.RawMessage, path string) (float64, error) {
	if Kind(raw) == "a boolean" && string(raw) == "false" {
		return math.Inf(-1), nil
	}
	least, most := float64(-MaxBias), float64(MaxBias)
	return Number(raw, path, &least, &most)
}

// Apply applies the parameters of the request. words tokenises text, for biases on
// texts.
func (s *Sampling) Apply(p *engine.Sampling, words func(text string) ([]llm.Token, error)) error {
	for _, v := range s.set {
		if err := v.field.Set(p, v.x); err != nil {
			return Bad(v.field.Name, "%v", err)
		}
	}
	if s.seed != nil {
		p.Seed = *s.seed
	}
	if s.dry {
		p.DRYBreakers = s.stop
	}
	if len(s.bias)+len(s.text) == 0 {
		return nil
	}
	p.LogitBias = map[llm.Token]float64{}
	for t, x := range s.bias {
		p.LogitBias[t] = x
	}
	for _, b := range s.text {
		tokens, err := words(b.text)
		if err != nil {
			return err
		}
		for _, t := range tokens {
			p.LogitBias[t] = b.x
		}
	}
	return nil
}
