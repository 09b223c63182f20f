package api

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"godwit/app/hub"
	"godwit/engine/testmodel"
)

// seeing starts a server with a model that reads pictures and one that does not,
// and returns a picture in base64.
func seeing(t *testing.T, change func(o *setup)) (*live, string) {
	t.Helper()
	dir, picture := testmodel.Pictures(t)
	lib, err := hub.Open(hub.Options{Dir: dir, URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	v := start(t, func(o *setup) {
		o.Library = lib
		if change != nil {
			change(o)
		}
	})
	return v, base64.StdEncoding.EncodeToString(picture)
}

// pictureAsks are questions about a picture in every dialect.
func pictureAsks(model, data string) map[string]object {
	url := "data:image/png;base64," + data
	text := object{"type": "text", "text": "what is it"}
	return map[string]object{
		"/v1/chat/completions": {"model": model, "max_tokens": 2, "messages": []object{{"role": "user", "content": []object{
			text, {"type": "image_url", "image_url": object{"url": url, "detail": "low"}},
		}}}},
		"/v1/responses": {"model": model, "max_output_tokens": 16, "input": []object{{"role": "user", "content": []object{
			{"type": "input_text", "text": "what is it"}, {"type": "input_image", "image_url": url},
		}}}},
		"/v1/messages": {"model": model, "max_tokens": 2, "messages": []object{{"role": "user", "content": []object{
			{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": data}}, text,
		}}}},
		"/v1/messages/count_tokens": {"model": model, "messages": []object{{"role": "user", "content": []object{
			{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": data}}, text,
		}}}},
		"/api/chat": {"model": model, "stream": false, "options": object{"num_predict": 2}, "messages": []object{
			{"role": "user", "content": "what is it", "images": []string{data}},
		}},
		"/api/generate": {"model": model, "stream": false, "options": object{"num_predict": 2}, "prompt": "what is it", "images": []string{data}},
		"/completion":   {"model": model, "n_predict": 2, "prompt": "a [img-7] b", "image_data": []object{{"id": 7, "data": data}}},
		"/completions":  {"model": model, "n_predict": 2, "prompt": object{"prompt_string": "a <__media__> b", "multimodal_data": []string{data}}},
		"/api/v1/chat":  {"model": model, "max_output_tokens": 2, "input": []object{{"type": "message", "content": "what"}, {"type": "image", "data_url": url}}},
		"/apply-template": {"model": model, "messages": []object{{"role": "user", "content": []object{
			text, {"type": "image_url", "image_url": object{"url": url}},
		}}}},
	}
}

// TestPicturesInEveryDialect sends a picture in every dialect. The tower encodes it
// once.
func TestPicturesInEveryDialect(t *testing.T) {
	v, data := seeing(t, nil)
	for path, body := range pictureAsks("see", data) {
		if r := v.ask("POST", path, body); r.status != 200 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for path, body := range pictureAsks("blind", data) {
		r := v.ask("POST", path, body)
		if path == "/apply-template" {
			continue
		}
		if r.status != 400 || !strings.Contains(string(r.body), "see") {
			t.Errorf("%s of a text model: %d %s", path, r.status, r.body)
		}
	}
}

// TestPictureCapability checks the capability in every list of models.
func TestPictureCapability(t *testing.T) {
	v, _ := seeing(t, nil)
	for path, word := range map[string]string{"/v1/models": "vision", "/models": "vision", "/api/v1/models": `"vision":true`, "/api/v0/models": "vlm"} {
		if r := v.ask("GET", path, nil); r.status == 200 && !strings.Contains(string(r.body), word) {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	for name, want := range map[string]bool{"see": true, "blind": false} {
		var show struct{ Capabilities []string }
		r := v.ask("POST", "/api/show", object{"model": name})
		if err := json.Unmarshal(r.body, &show); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(show.Capabilities, " "), "vision"); got != want {
			t.Errorf("%s: capabilities %q", name, show.Capabilities)
		}
	}
}

// TestWrongPictures sends invalid pictures. Every response has status 400 and the
// reason.
func TestWrongPictures(t *testing.T) {
	v, data := seeing(t, nil)
	enc := func(s string) string { return "data:;base64," + base64.StdEncoding.EncodeToString([]byte(s)) }
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	for why, url := range map[string]string{
		"SVG":        enc(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"empty":      enc(""),
		"unknown":    enc("hello there, I am no picture"),
		"PNG":        enc(string(raw[:len(raw)/2])),
		"base64":     "data:image/png;base64,!!!",
		"comma":      "data:image/png;base64",
		"data: URLs": "https://example.com/a.png",
		"HEIC":       enc("\x00\x00\x00\x18ftypheic"),
	} {
		r := v.ask("POST", "/v1/chat/completions", object{"model": "see", "messages": []object{{"role": "user", "content": []object{
			{"type": "image_url", "image_url": object{"url": url}},
		}}}})
		if r.status != 400 || !strings.Contains(string(r.body), why) {
			t.Errorf("%s: %d %s", why, r.status, r.body)
		}
	}
}

// TestImageURLs downloads pictures only if that is allowed, and never from this
// machine.
func TestImageURLs(t *testing.T) {
	v, _ := seeing(t, func(o *setup) { o.Settings.Server.AllowImageURLs = true })
	for _, url := range []string{v.url + "/a.png", "http://localhost:1/a", "http://[::1]:1/a", "http://169.254.169.254/latest", "ftp://example.com/a", "file:///etc/hosts"} {
		r := v.ask("POST", "/v1/chat/completions", object{"model": "see", "messages": []object{{"role": "user", "content": []object{
			{"type": "image_url", "image_url": object{"url": url}},
		}}}})
		if r.status != 400 {
			t.Errorf("%s: %d %s", url, r.status, r.body)
		}
	}
	for address, want := range map[string]bool{
		"93.184.215.14": true, "2606:2800:21f:cb07:6820:80da:af6b:8b2c": true,
		"127.0.0.1": false, "10.1.2.3": false, "192.168.0.1": false, "172.16.9.9": false, "169.254.1.1": false,
		"0.0.0.0": false, "100.64.1.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::1": false, "fe80::1": false, "fc00::1": false, "::": false, "64:ff9b::a00:1": false, "2002:7f00:1::": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s counts as public: %v", address, got)
		}
	}
}
