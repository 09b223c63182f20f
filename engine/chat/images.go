package chat

import "godwit/engine/chat/jinja"

// ImageMarker stands for a picture in a rendered prompt, as trusted text: the same
// characters typed by a person are just text.
const ImageMarker = "<__media__>"

// imageURL is the URL of a part that is a picture, in the forms of chat completions
// and of responses; empty for other parts.
func imageURL(part *Dict) string {
	kind, _ := text(lookup(part, "type"))
	if kind != "image_url" && kind != "input_image" {
		return ""
	}
	v := lookup(part, "image_url")
	if d, ok := v.(*Dict); ok {
		v = lookup(d, "url")
	}
	s, _ := text(v)
	return s
}

// imagesOf lists the URLs of all pictures of messages that were checked.
func imagesOf(messages *List) []string {
	var out []string
	for i := range messages.Len() {
		m, ok := messages.At(i).(*Dict)
		if !ok {
			continue
		}
		l, ok := lookup(m, "content").(*List)
		if !ok {
			continue
		}
		for k := range l.Len() {
			if d, ok := l.At(k).(*Dict); ok {
				if url := imageURL(d); url != "" {
					out = append(out, url)
				}
			}
		}
	}
	return out
}

// joined is the content of a message whose template takes a string: texts one a
// line, pictures where they stand.
func joined(parts []Value) Value {
	var list []Value
	lastText := false
	for _, p := range parts {
		s, ok := p.(*jinja.Str)
		image := ok && s.String() == ImageMarker && !s.IsTyped()
		if lastText && !image {
			list = append(list, jinja.Trusted("\n"))
		}
		list, lastText = append(list, p), !image
	}
	return jinja.Join("", list...)
}
