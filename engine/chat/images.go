package chat

import "godwit/engine/chat/jinja"

// ImageMarker stands for a picture in a rendered prompt, as trusted text. If a
// person types the same characters, they are plain text.
const ImageMarker = "<__media__>"

// imageURL returns the URL of a content part that is a picture, in the form of chat
// completions or of responses, and "" for other parts.
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

// imagesOf lists the URLs of all pictures in messages. The messages were already
// checked.
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

// joined returns a message's content for templates that accept only strings. It
// has one text per line, with markers in place of pictures.
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
