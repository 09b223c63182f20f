package llamaserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"godwit/app/api/wire"
	"godwit/engine"
)

// illustrated reads a prompt with pictures at its markers.
func illustrated(raw json.RawMessage, path string) ([]part, error) {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return nil, err
	}
	var p part
	if p.text, err = wire.Text(o.Value("prompt_string"), path+".prompt_string"); err != nil {
		return nil, err
	}
	at := path + ".multimodal_data"
	if wire.IsNull(o.Value("multimodal_data")) {
		return []part{p}, nil
	}
	list, err := wire.List(o.Value("multimodal_data"), at)
	if err != nil {
		return nil, err
	}
	for i, raw := range list {
		text, err := wire.Text(raw, fmt.Sprintf("%s[%d]", at, i))
		if err != nil {
			return nil, err
		}
		if err := p.add(text, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return nil, err
		}
	}
	if n := strings.Count(p.text, engine.ImageMarker); n != len(p.images) {
		return nil, wire.Bad(path, "the text has %d markers %s, but there are %d pictures", n, engine.ImageMarker, len(p.images))
	}
	return []part{p}, nil
}

// add decodes a picture.
func (p *part) add(base64, path string) error {
	data, err := engine.DecodeImage(base64)
	if err != nil {
		return wire.Bad(path, "%v", err)
	}
	p.images = append(p.images, data)
	return nil
}

// mark matches a reference to a picture in image_data.
var mark = regexp.MustCompile(`\[img-([0-9]{1,9})\]`)

// insertImages inserts the pictures of image_data at their references.
func insertImages(prompts [][]part, list []ImageData) error {
	if len(list) == 0 {
		return nil
	}
	if len(prompts) != 1 || len(prompts[0]) != 1 || prompts[0][0].tokens != nil || prompts[0][0].images != nil {
		return wire.Bad("image_data", "pictures require a prompt that is a single text")
	}
	byID := make(map[int]int)
	for i, d := range list {
		byID[d.ID] = i
	}
	p := &prompts[0][0]
	var failed error
	used := make(map[int]bool)
	p.text = mark.ReplaceAllStringFunc(p.text, func(s string) string {
		id, _ := strconv.Atoi(mark.FindStringSubmatch(s)[1])
		i, ok := byID[id]
		if !ok || failed != nil {
			return s
		}
		used[id] = true
		failed = p.add(list[i].Data, fmt.Sprintf("image_data[%d].data", i))
		return engine.ImageMarker
	})
	if failed == nil && len(used) < len(byID) {
		return wire.Bad("image_data", "there are %d pictures, but only %d have a marker such as [img-%d] in the prompt", len(list), len(used), list[0].ID)
	}
	return failed
}
