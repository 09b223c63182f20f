package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"godwit/engine"
)

// Schemas collects the JSON schemas of wire types for the OpenAPI document. Each
// struct has an entry, by package and name.
type Schemas map[string]map[string]any

// schemer is a wire type that provides its own schema.
type schemer interface{ schema() map[string]any }

func (Content) schema() map[string]any {
	return map[string]any{"description": "A text, null, or a list of text parts.", "anyOf": []any{
		map[string]any{"type": []string{"string", "null"}},
		map[string]any{"type": "array", "items": map[string]any{"type": "object", "required": []string{"type"}, "properties": map[string]any{
			"type": map[string]any{"type": "string"}, "text": map[string]any{"type": "string"},
		}}},
	}}
}

func (Strings) schema() map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{"anyOf": []any{text, map[string]any{"type": "array", "items": text}}}
}

func (Stops) schema() map[string]any { return Strings(nil).schema() }

// fields adds the sampling parameters to the properties of a request.
func (Sampling) fields(properties map[string]any) {
	for _, f := range engine.SamplingFields() {
		kind := "number"
		if f.Integer {
			kind = "integer"
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			p := map[string]any{"type": []string{kind, "null"}, "description": f.Help}
			if f.Name != "seed" { // a seed may be any 64-bit number, so it has no bounds
				p["minimum"], p["maximum"] = f.Min, f.Max
			}
			properties[name] = p
		}
	}
	number := map[string]any{"type": "number", "minimum": -MaxBias, "maximum": MaxBias}
	properties["logit_bias"] = map[string]any{"description": "Numbers to add to the logits of tokens, by token id.", "anyOf": []any{
		map[string]any{"type": []string{"object", "null"}, "additionalProperties": number}, map[string]any{"type": "array"},
	}}
	properties["dry_sequence_breakers"] = Strings(nil).schema()
	for _, f := range reuseFields {
		properties[f.name] = map[string]any{"type": []string{f.kind, "null"}, "description": f.help}
	}
}

// Request returns the schema of a request's wire type. Optional fields may be null.
func (s Schemas) Request(v any) map[string]any { return s.of(reflect.TypeOf(v), true) }

// Answer returns the schema of a response's wire type.
func (s Schemas) Answer(v any) map[string]any { return s.of(reflect.TypeOf(v), false) }

func (s Schemas) of(t reflect.Type, request bool) map[string]any {
	if x, ok := reflect.Zero(t).Interface().(schemer); ok && t.Kind() != reflect.Pointer {
		return x.schema()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Decoder]()):
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem(), request))
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem(), request)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem(), request)}
	case reflect.Struct:
		return s.object(t, request)
	}
	panic("wire: no schema of " + t.String())
}

func nullable(m map[string]any) map[string]any {
	if kind, ok := m["type"].(string); ok && m["enum"] == nil {
		m["type"] = []string{kind, "null"}
		return m
	}
	if len(m) == 0 {
		return m
	}
	return map[string]any{"anyOf": []any{m, map[string]any{"type": "null"}}}
}

// object adds the schema of a struct and returns a reference to it.
func (s Schemas) object(t reflect.Type, request bool) map[string]any {
	if t.NumField() == 0 {
		return map[string]any{"type": "object"}
	}
	name := strings.ReplaceAll(t.String(), "*", "")
	ref := map[string]any{"$ref": "#/components/schemas/" + name}
	if s[name] != nil {
		return ref
	}
	properties := map[string]any{}
	var required []string
	entry := map[string]any{"type": "object", "properties": properties}
	s[name] = entry
	s.members(t, request, properties, &required)
	if len(required) > 0 {
		slices.Sort(required)
		entry["required"] = required
	}
	return ref
}

// members adds the fields of a struct, including the fields of embedded
// structs.
func (s Schemas) members(t reflect.Type, request bool, properties map[string]any, required *[]string) {
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		inner := sf.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case sf.Anonymous && name == "" && inner == reflect.TypeFor[Sampling]():
			Sampling{}.fields(properties)
			continue
		case sf.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			all := required
			if sf.Type.Kind() == reflect.Pointer { // the whole embedded object may be missing
				all = new([]string)
			}
			s.members(inner, request, properties, all)
			continue
		case name == "" || name == "-":
			continue
		}
		p := s.of(sf.Type, request)
		if request {
			p = constrain(p, sf.Tag)
			if _, need := sf.Tag.Lookup("need"); need {
				*required = append(*required, name)
			} else {
				p = nullable(p)
			}
		} else if !strings.Contains(options, "omitempty") {
			*required = append(*required, name)
		}
		if doc := sf.Tag.Get("doc"); doc != "" {
			p["description"] = doc
		}
		properties[name] = p
	}
}

// constrain adds the bounds of a field's tags.
func constrain(p map[string]any, tag reflect.StructTag) map[string]any {
	target := p
	if items, ok := p["items"].(map[string]any); ok && p["type"] == "array" {
		target = items
	}
	for key, name := range map[string]string{"min": "minimum", "max": "maximum"} {
		if x := number(tag.Get(key)); x != nil {
			target[name] = *x
		}
	}
	if e := tag.Get("enum"); e != "" {
		target["enum"] = strings.Split(e, ",")
	}
	if m := number(tag.Get("most")); m != nil {
		switch kind := p["type"]; kind {
		case "string":
			p["maxLength"] = *m
		case "array":
			p["maxItems"] = *m
		}
	}
	return p
}
