package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"godwit/app/api/wire"
)

// result returns the text of a tool's result. Parts that the model cannot read
// are replaced by their name instead of being rejected, because the user cannot
// change the result of an agent's tool.
func (r *reading) result(raw json.RawMessage, path string) (string, error) {
	if wire.Kind(raw) != "a list" {
		return wire.ReadContent(raw, path)
	}
	list, err := wire.List(raw, path)
	if err != nil {
		return "", err
	}
	var parts []string
	for i, b := range list {
		s, err := r.resultBlock(b, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "\n"), nil
}

func (r *reading) resultBlock(raw json.RawMessage, path string) (string, error) {
	if wire.Kind(raw) == "a string" {
		return wire.Text(raw, path)
	}
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return "", err
	}
	kind, err := wire.Text(o.Value("type"), path+".type")
	if err != nil {
		return "", err
	}
	switch kind {
	case "text":
		return wire.Text(o.Value("text"), path+".text")
	case "document", "search_result":
		s, err := r.document(o, path)
		if err == nil {
			return s, nil
		}
	case "tool_reference":
		name, err := wire.Text(o.Value("tool_name"), path+".tool_name")
		return "Tool found: " + name, err
	}
	r.notices.Add("blocks of type %.64q in tool results left out, because only text is supported", kind)
	return fmt.Sprintf("[%.64s left out: only text is read here]", kind), nil
}

// document returns the text of a document or of a search result.
func (r *reading) document(o wire.Object, path string) (string, error) {
	var parts []string
	for _, key := range []string{"title", "context"} {
		if v := o.Value(key); v != nil {
			s, err := wire.Text(v, path+"."+key)
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
	}
	body, err := documentText(o, path)
	if err != nil {
		return "", err
	}
	return strings.Join(append(parts, body), "\n"), nil
}

func documentText(o wire.Object, path string) (string, error) {
	if v := o.Value("content"); v != nil { // a search result
		return wire.ReadContent(v, path+".content")
	}
	path += ".source"
	source, err := wire.ReadObject(o.Value("source"), path)
	if err != nil {
		return "", err
	}
	kind, err := wire.Text(source.Value("type"), path+".type")
	if err != nil {
		return "", err
	}
	media := ""
	if v := source.Value("media_type"); v != nil {
		if media, err = wire.Text(v, path+".media_type"); err != nil {
			return "", err
		}
	}
	switch {
	case kind == "content":
		return wire.ReadContent(source.Value("content"), path+".content")
	case kind == "text":
		return wire.Text(source.Value("data"), path+".data")
	case kind == "base64" && strings.HasPrefix(media, "text/"):
		s, err := wire.Text(source.Value("data"), path+".data")
		if err != nil {
			return "", err
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil || !utf8.Valid(b) {
			return "", wire.Bad(path+".data", "want UTF-8 text in base64")
		}
		return string(b), nil
	}
	return "", unsupported(path, "documents of type %.64q and media type %.64q are not supported; only text documents are", kind, media)
}

// image returns the URL of a picture.
func image(o wire.Object, path string) (string, error) {
	path += ".source"
	source, err := wire.ReadObject(o.Value("source"), path)
	if err != nil {
		return "", err
	}
	kind, err := wire.Text(source.Value("type"), path+".type")
	if err != nil {
		return "", err
	}
	switch kind {
	case "base64":
		media, err := wire.Text(source.Value("media_type"), path+".media_type")
		if err != nil {
			return "", err
		}
		data, err := wire.Text(source.Value("data"), path+".data")
		if err != nil {
			return "", err
		}
		return wire.Base64Image(media, data, path+".data")
	case "url":
		url, err := wire.Text(source.Value("url"), path+".url")
		if err != nil {
			return "", err
		}
		return url, wire.CheckImage(url, path+".url")
	}
	return "", unsupported(path+".type", "pictures of source type %.64q are not supported; only base64 and url are", kind)
}
