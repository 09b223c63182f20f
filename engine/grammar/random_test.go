package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// schemaMaker writes random schemas that nest and combine keywords.
type schemaMaker struct {
	rng  *rand.Rand
	defs map[string]any
}

func (m *schemaMaker) chance(percent int) bool { return m.rng.IntN(100) < percent }

func one[T any](m *schemaMaker, list ...T) T { return list[m.rng.IntN(len(list))] }

func (m *schemaMaker) schema(depth int) map[string]any {
	if depth <= 0 || m.chance(40) {
		return m.leaf()
	}
	switch m.rng.IntN(10) {
	case 0:
		return map[string]any{one(m, "anyOf", "oneOf"): []any{m.schema(depth - 1), m.schema(depth - 1), m.leaf()}}
	case 1:
		return map[string]any{"allOf": []any{m.object(depth - 1), m.object(depth - 1)}}
	case 2:
		name := fmt.Sprintf("d%d", m.rng.IntN(4))
		if m.defs[name] == nil {
			m.defs[name] = true // for references while it is written
			m.defs[name] = m.schema(depth - 1)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	case 3, 4, 5:
		return m.array(depth)
	}
	return m.object(depth)
}

func (m *schemaMaker) object(depth int) map[string]any {
	props, s := map[string]any{}, map[string]any{"type": "object"}
	var required []any
	for range m.rng.IntN(5) {
		name := one(m, "a", "b", "name", "id", "x y", "é", "a\"b", "na")
		if props[name] != nil {
			continue
		}
		props[name] = m.schema(depth - 1)
		if m.chance(40) {
			required = append(required, name)
		}
	}
	if len(props) > 0 || m.chance(50) {
		s["properties"] = props
	}
	if required != nil {
		s["required"] = required
	}
	switch m.rng.IntN(6) {
	case 0:
		s["additionalProperties"] = false
	case 1:
		s["additionalProperties"] = m.leaf()
	case 2:
		s["patternProperties"] = map[string]any{one(m, "^x", "_id$", "^[a-c]{1,2}$", "n"): m.leaf()}
	case 3:
		s["minProperties"] = m.rng.IntN(3)
		s["maxProperties"] = 3 + m.rng.IntN(3)
	}
	return s
}

func (m *schemaMaker) array(depth int) map[string]any {
	s := map[string]any{"type": "array"}
	if m.chance(70) {
		s["items"] = m.schema(depth - 1)
	}
	if m.chance(30) {
		s["prefixItems"] = []any{m.schema(depth - 1), m.leaf()}
	}
	if m.chance(40) {
		s["minItems"] = m.rng.IntN(3)
	}
	if m.chance(40) {
		s["maxItems"] = 2 + m.rng.IntN(20)
	}
	if m.chance(10) {
		return map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{"enum": []any{1, "b", nil, 2.5}}, "minItems": m.rng.IntN(4)}
	}
	return s
}

func (m *schemaMaker) leaf() map[string]any {
	switch m.rng.IntN(9) {
	case 0:
		return map[string]any{"type": "boolean"}
	case 1:
		return map[string]any{"type": []any{one(m, "string", "integer", "array"), "null"}, "minLength": m.rng.IntN(3)}
	case 2:
		return map[string]any{"enum": []any{one[any](m, 1, "x", nil), one[any](m, "y", 2.5, true), map[string]any{"k": []any{"v"}}}}
	case 3:
		return map[string]any{"const": one[any](m, "c", 7, []any{1, "é"}, map[string]any{})}
	case 4, 5:
		return m.number()
	case 6:
		return map[string]any{"type": "string", "format": one(m, "date", "uuid", "ipv4", "date-time", "email")}
	case 7:
		s := map[string]any{"type": "string", "pattern": one(m, "^[a-z]{2,6}$", "^(ab|c)+$", "x", "^\\d+(\\.\\d+)?$", "^.{1,3}é", "[\"\\\\]")}
		if m.chance(40) {
			s["maxLength"] = 8 + m.rng.IntN(8)
		}
		return s
	}
	s := map[string]any{"type": "string"}
	if m.chance(50) {
		s["minLength"] = m.rng.IntN(6)
	}
	if m.chance(50) {
		s["maxLength"] = 6 + m.rng.IntN(60)
	}
	return s
}

func (m *schemaMaker) number() map[string]any {
	s := map[string]any{"type": one(m, "integer", "number")}
	lo := float64(m.rng.IntN(2000)-1000) / float64(one(m, 1, 4, 10))
	if m.chance(60) {
		s[one(m, "minimum", "exclusiveMinimum")] = lo
	}
	if m.chance(60) {
		s[one(m, "maximum", "exclusiveMaximum")] = lo + float64(3+m.rng.IntN(500))
	}
	if m.chance(30) {
		s["multipleOf"] = one(m, 1, 2, 0.5, 0.25, 3, 0.1)
	}
	return s
}

// A seeded generator writes schemas, a seeded sampler draws documents, and an
// independent validator judges them.
func TestRandomSchemas(t *testing.T) {
	v := newVocab(jsonTexts...)
	toks := newTokens(t, v)
	built, refused, valid := 0, 0, 0
	for seed := range uint64(400) {
		m := &schemaMaker{rng: rand.New(rand.NewPCG(seed, 11)), defs: map[string]any{}}
		s := m.object(3)
		if m.chance(30) {
			s = m.schema(3)
		}
		if len(m.defs) > 0 {
			s["$defs"] = m.defs
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromSchema(text); err != nil {
			if !errors.Is(err, ErrSchema) {
				t.Fatalf("%s: %v", text, err)
			}
			refused++
			continue
		}
		built++
		if _, ended := check(t, text, v, toks, rand.New(rand.NewPCG(seed, 12)), 5); ended > 0 {
			valid++
		}
	}
	t.Logf("%d schemas built, %d refused, documents of %d validated", built, refused, valid)
	if valid < built*9/10 {
		t.Errorf("documents of %d of %d schemas ended", valid, built)
	}
	if built < 300 {
		t.Errorf("%d of 400 schemas built", built)
	}
}
