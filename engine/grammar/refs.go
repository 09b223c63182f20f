package grammar

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// document is a whole schema, in which references are resolved.
type document struct {
	root  *value
	bases map[*value]*url.URL // base URI of each schema, against which its references resolve
	parts map[string]raw      // schemas with an identifier or an anchor, by URI
	many  bool                // whether parts of the schema have their own identifiers
	old   bool                // whether the schema is draft 7 or older, where keywords next to $ref are ignored
}

func newDocument(root *value) *document {
	d := &document{root: root, bases: map[*value]*url.URL{}, parts: map[string]raw{}}
	if s := root.at["$schema"]; s != nil {
		d.old = strings.Contains(s.text, "/draft-0")
	}
	d.parts[""] = raw{root, "#"}
	d.visit(raw{root, "#"}, &url.URL{})
	if !d.many {
		d.plainRefs(root)
	}
	return d
}

// dead reports whether a keyword contains data instead of schemas.
func dead(keyword string) bool {
	return slices.Contains([]string{"enum", "const", "default", "examples"}, keyword)
}

// visit records the URIs of schemas.
func (d *document) visit(r raw, base *url.URL) {
	if r.v.kind == isObject {
		if ref := r.v.at["$ref"]; d.old && ref != nil && ref.kind == isText {
			r.v.keys = slices.DeleteFunc(r.v.keys, func(k string) bool {
				beside := k != "$ref" && (!annotation(k) || k == "$id" && r.path != "#")
				if beside {
					delete(r.v.at, k)
				}
				return beside
			})
		}
		if id := r.v.at["$id"]; id != nil && id.kind == isText {
			if to, err := base.Parse(id.text); err == nil {
				anchor := to.Fragment
				bare := *to
				bare.Fragment = ""
				switch {
				case anchor != "": // draft 7
					d.parts[to.String()] = r
				default:
					d.many = d.many || r.path != "#"
					base = &bare
					d.parts[base.String()] = r
				}
			}
		}
		for _, k := range []string{"$anchor", "$dynamicAnchor"} {
			if a := r.v.at[k]; a != nil && a.kind == isText {
				d.parts[base.String()+"#"+a.text] = r
			}
		}
		d.bases[r.v] = base
	}
	for _, k := range r.v.keys {
		if !dead(k) || strings.HasSuffix(r.path, "/properties") {
			d.visit(r.sub(k), base)
		}
	}
	for i := range r.v.items {
		d.visit(r.item(i), base)
	}
}

// plainRefs replaces dynamic references by plain ones. The two are equivalent if no
// part of the document has an identifier of its own.
func (d *document) plainRefs(v *value) {
	for i, k := range v.keys {
		if (k == "$dynamicRef" || k == "$recursiveRef") && v.at["$ref"] == nil && v.at[k].kind == isText {
			v.at["$ref"] = v.at[k]
			delete(v.at, k)
			v.keys[i] = "$ref"
		}
	}
	for _, k := range v.keys {
		if !dead(k) {
			d.plainRefs(v.at[k])
		}
	}
	for _, item := range v.items {
		d.plainRefs(item)
	}
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func (r raw) sub(key string) raw {
	to := r.v.at[key]
	if strings.ContainsAny(key, "~/") {
		key = escapes.Replace(key)
	}
	return raw{to, r.path + "/" + key}
}

func (r raw) item(i int) raw { return raw{r.v.items[i], r.path + "/" + strconv.Itoa(i)} }

// resolve returns the schema that a $ref of r points to.
func (d *document) resolve(r raw) (raw, error) {
	at := r.sub("$ref")
	if at.v.kind != isText {
		return raw{}, fault(at.path, "want a string, got %s", kindNames[at.v.kind])
	}
	base := d.bases[r.v]
	if base == nil {
		base = &url.URL{}
	}
	target, err := base.Parse(at.v.text)
	if err != nil {
		return raw{}, fault(at.path, "%q: %v", at.v.text, err)
	}
	fragment := target.Fragment
	target.Fragment, target.RawFragment = "", ""
	whole, ok := d.parts[target.String()]
	if !ok && strings.HasPrefix(at.v.text, "#") {
		whole, ok = raw{d.root, "#"}, true // the reference points to the whole schema
	}
	if !ok {
		return raw{}, fault(at.path, "%q is outside the schema", at.v.text)
	}
	if fragment != "" && fragment[0] != '/' {
		to, ok := d.parts[target.String()+"#"+fragment]
		if !ok {
			return raw{}, fault(at.path, "no anchor %q", fragment)
		}
		return to, nil
	}
	to := whole
	for _, part := range strings.Split(fragment, "/")[1:] {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		i, err := strconv.Atoi(key)
		switch {
		case to.v.kind == isObject && to.v.at[key] != nil:
			to = to.sub(key)
		case to.v.kind == isArray && err == nil && i >= 0 && i < len(to.v.items):
			to = to.item(i)
		default:
			return raw{}, fault(at.path, "%q does not exist", at.v.text)
		}
	}
	return to, nil
}
