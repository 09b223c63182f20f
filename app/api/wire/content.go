package wire

import (
	"encoding/json"
	"fmt"
	"strings"
)

// partText maps a part's type to the field with its text.
var partText = map[string]string{
	"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal",
}

// Content is the content of a message: a string, null, or a list of text parts,
// which are joined by line breaks.
type Content struct {
	Text string
	Set  bool // whether the content is neither missing nor null
}

// DecodeWire reads any of the forms.
func (c *Content) DecodeWire(raw json.RawMessage, path string) error {
	text, err := ReadContent(raw, path)
	*c = Content{text, true}
	return err
}

// ReadContent returns the text of a message's content. A part that is not text
// gives an error that names the part and its type.
func ReadContent(raw json.RawMessage, path string) (string, error) {
	switch Kind(raw) {
	case "null", "nothing":
		return "", nil
	case "a string":
		return Text(raw, path)
	case "a list":
	default:
		return "", Bad(path, "want a string or a list of parts, got %s", Kind(raw))
	}
	parts, err := List(raw, path)
	if err != nil {
		return "", err
	}
	var text []string
	for i, part := range parts {
		s, err := readPart(part, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return "", err
		}
		text = append(text, s)
	}
	return strings.Join(text, "\n"), nil
}

func readPart(part json.RawMessage, path string) (string, error) {
	if Kind(part) == "a string" {
		return Text(part, path)
	}
	o, err := ReadObject(part, path)
	if err != nil {
		return "", err
	}
	kind, err := Text(o.Value("type"), path+".type")
	if err != nil {
		return "", err
	}
	name, ok := partText[kind]
	if !ok {
		return "", &Error{
			Status: 400, Type: Invalid, Code: "unsupported_content", Param: path,
			Message: fmt.Sprintf("%s: parts of type %q are not supported; this field reads only text", path, clip(kind)),
		}
	}
	return Text(o.Value(name), path+"."+name)
}

// Strings is a field that may be a string or a list of strings.
type Strings []string

// Limits of stop strings.
const (
	MaxStops = 64
	maxStop  = 1024
)

// DecodeWire reads either form.
func (s *Strings) DecodeWire(raw json.RawMessage, path string) error {
	if Kind(raw) == "a string" {
		text, err := Text(raw, path)
		*s = Strings{text}
		return err
	}
	if Kind(raw) != "a list" {
		return Bad(path, "want a string or a list of strings, got %s", Kind(raw))
	}
	list, err := List(raw, path)
	if err != nil {
		return err
	}
	*s = Strings{}
	for i, item := range list {
		text, err := Text(item, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return err
		}
		*s = append(*s, text)
	}
	return nil
}

// Stops is a Strings of stop strings, limited in number and length.
type Stops []string

// DecodeWire reads either form.
func (s *Stops) DecodeWire(raw json.RawMessage, path string) error {
	if err := (*Strings)(s).DecodeWire(raw, path); err != nil {
		return err
	}
	if len(*s) > MaxStops {
		return Bad(path, "%d stop strings are too many; the limit is %d", len(*s), MaxStops)
	}
	for i, text := range *s {
		if len(text) > maxStop {
			return Bad(fmt.Sprintf("%s[%d]", path, i), "%d bytes is too long; the limit is %d", len(text), maxStop)
		}
	}
	return nil
}
