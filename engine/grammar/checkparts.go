package grammar

import (
	"fmt"
	"slices"
	"strconv"
)

// applied checks the keywords that apply schemas to the value itself.
func (r *checking) applied(at raw, v *value, place string, ev *seen) (string, error) {
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		if at.v.at[k] == nil {
			continue
		}
		if why, err := r.group(at.sub(k), k, v, place, ev); why != "" || err != nil {
			return why, err
		}
	}
	if at.v.at["not"] != nil {
		why, _, err := r.schema(at.sub("not"), v, place)
		if err != nil {
			return "", err
		}
		if why == "" {
			return broken(at.sub("not"), place), nil
		}
	}
	if at.v.at["if"] == nil {
		return "", nil
	}
	why, sub, err := r.schema(at.sub("if"), v, place)
	if err != nil {
		return "", err
	}
	next := "else"
	if why == "" {
		ev.add(sub)
		next = "then"
	}
	if at.v.at[next] == nil {
		return "", nil
	}
	why, sub, err = r.schema(at.sub(next), v, place)
	ev.add(sub)
	return why, err
}

// group checks allOf, anyOf or oneOf.
func (r *checking) group(at raw, k string, v *value, place string, ev *seen) (string, error) {
	fits, first := 0, ""
	for i := range at.v.items {
		why, sub, err := r.schema(at.item(i), v, place)
		if err != nil {
			return "", err
		}
		if why == "" {
			fits++
			ev.add(sub)
		} else if first == "" {
			first = why
		}
	}
	switch {
	case k == "allOf" && first != "":
		return first, nil
	case k == "anyOf" && fits == 0, k == "oneOf" && fits != 1:
		return fmt.Sprintf("%s, of which it matches %d of %d", broken(at, place), fits, len(at.v.items)), nil
	}
	return "", nil
}

func (r *checking) array(at raw, v *value, place string, ev *seen) (string, error) {
	if v.kind != isArray {
		return "", nil
	}
	if k := counted(at.v, len(v.items), "minItems", "maxItems"); k != "" {
		return broken(at.sub(k), place), nil
	}
	if isYes(at.v.at["uniqueItems"]) {
		have := map[string]bool{}
		for _, item := range v.items {
			if k := item.key(); have[k] {
				return broken(at.sub("uniqueItems"), place), nil
			} else {
				have[k] = true
			}
		}
	}
	prefix, rest := split2(at)
	for i, item := range v.items {
		to := rest
		if i < len(prefix) {
			to = &prefix[i]
		}
		if to == nil {
			continue
		}
		ev.item(i)
		why, _, err := r.schema(*to, item, place+"/"+strconv.Itoa(i))
		if why != "" || err != nil {
			return why, err
		}
	}
	return r.contains(at, v, place, ev)
}

func (r *checking) contains(at raw, v *value, place string, ev *seen) (string, error) {
	if at.v.at["contains"] == nil {
		return "", nil
	}
	n := 0
	for i, item := range v.items {
		why, _, err := r.schema(at.sub("contains"), item, place+"/"+strconv.Itoa(i))
		if err != nil {
			return "", err
		}
		if why == "" {
			n++
			ev.item(i)
		}
	}
	if at.v.at["minContains"] == nil && n == 0 {
		return broken(at.sub("contains"), place), nil
	}
	if k := counted(at.v, n, "minContains", "maxContains"); k != "" {
		return broken(at.sub(k), place), nil
	}
	return "", nil
}

func (r *checking) object(at raw, v *value, place string, ev *seen) (string, error) {
	if v.kind != isObject {
		return "", nil
	}
	if k := counted(at.v, len(v.keys), "minProperties", "maxProperties"); k != "" {
		return broken(at.sub(k), place), nil
	}
	if req := at.v.at["required"]; req != nil && req.kind == isArray && !v.hasAll(req) {
		return broken(at.sub("required"), place), nil
	}
	for _, k := range v.keys {
		if at.v.at["propertyNames"] != nil {
			why, _, err := r.schema(at.sub("propertyNames"), &value{kind: isText, text: k}, place+"/"+k)
			if why != "" || err != nil {
				return why, err
			}
		}
		to, err := r.member(at, k)
		if err != nil {
			return "", err
		}
		for _, sub := range to {
			ev.member(k)
			why, _, err := r.schema(sub, v.at[k], place+"/"+k)
			if why != "" || err != nil {
				return why, err
			}
		}
	}
	return r.dependent(at, v, place, ev)
}

// hasAll reports whether an object has a member for every name in a list.
func (v *value) hasAll(names *value) bool {
	return !slices.ContainsFunc(names.items, func(n *value) bool { return v.at[n.text] == nil })
}

// member returns the schemas that apply to the member with a name.
func (r *checking) member(at raw, name string) ([]raw, error) {
	var out []raw
	if p := at.v.at["properties"]; p != nil && p.at[name] != nil {
		out = append(out, at.sub("properties").sub(name))
	}
	if p := at.v.at["patternProperties"]; p != nil {
		for _, src := range p.keys {
			ok, err := r.c.match(at.sub("patternProperties"), src, name)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, at.sub("patternProperties").sub(src))
			}
		}
	}
	if len(out) == 0 && at.v.at["additionalProperties"] != nil {
		out = append(out, at.sub("additionalProperties"))
	}
	return out, nil
}

// dependent checks the keywords that depend on the presence of a member.
func (r *checking) dependent(at raw, v *value, place string, ev *seen) (string, error) {
	for _, k := range []string{"dependentRequired", "dependentSchemas", "dependencies"} {
		d := at.v.at[k]
		if d == nil || d.kind != isObject {
			continue
		}
		for _, name := range d.keys {
			to := at.sub(k).sub(name)
			switch {
			case v.at[name] == nil:
			case to.v.kind == isArray:
				if !v.hasAll(to.v) {
					return broken(to, place), nil
				}
			default:
				why, sub, err := r.schema(to, v, place)
				if why != "" || err != nil {
					return why, err
				}
				ev.add(sub)
			}
		}
	}
	return "", nil
}

// leftOver checks the members and items that no other keyword has evaluated.
func (r *checking) leftOver(at raw, v *value, place string, ev *seen) (string, error) {
	if at.v.at["unevaluatedItems"] != nil && v.kind == isArray && !ev.all {
		for i, item := range v.items {
			if ev.items[i] {
				continue
			}
			why, _, err := r.schema(at.sub("unevaluatedItems"), item, place+"/"+strconv.Itoa(i))
			if why != "" || err != nil {
				return why, err
			}
		}
		ev.all = true
	}
	if at.v.at["unevaluatedProperties"] != nil && v.kind == isObject {
		for _, k := range v.keys {
			if ev.members[k] {
				continue
			}
			why, _, err := r.schema(at.sub("unevaluatedProperties"), v.at[k], place+"/"+k)
			if why != "" || err != nil {
				return why, err
			}
			ev.member(k)
		}
	}
	return "", nil
}
