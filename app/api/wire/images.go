package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"godwit/engine"
)

// ImagePart is a picture in a message's content, in OpenAI's form.
func ImagePart(url string) json.RawMessage {
	o, image := Object{}, Object{}
	image.SetText("url", url)
	o.SetText("type", "image_url")
	o.Set("image_url", image.Raw())
	return o.Raw()
}

// TextPart is a text in a message with pictures.
func TextPart(text string) json.RawMessage {
	o := Object{}
	o.SetText("type", "text")
	o.SetText("text", text)
	return o.Raw()
}

// Parts collects the content of a message, which is texts with pictures between
// them.
type Parts struct {
	list   []json.RawMessage
	texts  []string
	images bool
}

// Text adds a text.
func (p *Parts) Text(s string) {
	p.texts, p.list = append(p.texts, s), append(p.list, TextPart(s))
}

// Image adds a picture.
func (p *Parts) Image(url string) { p.images, p.list = true, append(p.list, ImagePart(url)) }

// Empty reports whether nothing was added.
func (p *Parts) Empty() bool { return len(p.list) == 0 }

// Raw returns the content. It is a string with one text per line, or a list of
// parts if there are pictures.
func (p *Parts) Raw() json.RawMessage {
	if p.images {
		return RawList(p.list)
	}
	return JSON(strings.Join(p.texts, "\n"))
}

// ReadParts reads the content of a message, with pictures in the forms of chat
// completions and of responses.
func ReadParts(raw json.RawMessage, path string) (json.RawMessage, error) {
	if Kind(raw) != "a list" {
		text, err := ReadContent(raw, path)
		return JSON(text), err
	}
	list, err := List(raw, path)
	if err != nil {
		return nil, err
	}
	var p Parts
	for i, part := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		url, ok, err := imageURL(part, at)
		if err != nil {
			return nil, err
		}
		if ok {
			p.Image(url)
			continue
		}
		s, err := readPart(part, at)
		if err != nil {
			return nil, err
		}
		p.Text(s)
	}
	return p.Raw(), nil
}

// imageURL returns the URL of a part that is a picture.
func imageURL(part json.RawMessage, path string) (url string, ok bool, err error) {
	if Kind(part) != "an object" {
		return "", false, nil
	}
	o, err := ReadObject(part, path)
	if err != nil {
		return "", false, err
	}
	var kind string
	_ = json.Unmarshal(o.Value("type"), &kind) // a type that is not a string is treated as an unknown type
	if kind != "image_url" && kind != "input_image" {
		return "", false, nil
	}
	v, at := o.Value("image_url"), path+".image_url"
	if v == nil && o.Value("file_id") != nil {
		return "", false, Bad(path+".file_id", "this server keeps no files; send the picture as a data: URL in image_url")
	}
	if Kind(v) == "an object" {
		image, err := ReadObject(v, at)
		if err != nil {
			return "", false, err
		}
		v, at = image.Value("url"), at+".url"
	}
	if url, err = Text(v, at); err == nil {
		err = CheckImage(url, at)
	}
	return url, true, err
}

// CheckImage checks the URL of a picture as far as possible without downloading the
// picture.
func CheckImage(url, path string) error {
	if !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return Bad(path, "want a data:, http: or https: URL")
	}
	return nil
}

// Base64Image returns the URL of a picture file in base64.
func Base64Image(media, data, path string) (string, error) {
	if data == "" {
		return "", Bad(path, "want an image file in base64")
	}
	if _, err := engine.DecodeImage(data); err != nil {
		return "", Bad(path, "%v", err)
	}
	return "data:" + media + ";base64," + data, nil
}
