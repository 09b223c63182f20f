package page

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"os"
)

// errNoWindow is the response to requests that need a window.
var errNoWindow = errors.New(textNoWindow)

func (p *Page) pickModels(_ http.ResponseWriter, r *http.Request) (any, error) {
	if p.o.Native == nil {
		return nil, errNoWindow
	}
	paths, err := p.o.Native.PickFiles(r.Context())
	if err != nil || len(paths) == 0 {
		return linked{}, err
	}
	return p.link(r.Context(), paths)
}

func (p *Page) nativeFolder(_ http.ResponseWriter, r *http.Request) (any, error) {
	if p.o.Native == nil {
		return nil, errNoWindow
	}
	path, err := p.o.Native.PickFolder(r.Context())
	return map[string]string{"path": path}, err
}

func (p *Page) revealModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	if p.o.Native == nil {
		return nil, errNoWindow
	}
	m, err := p.named(r)
	if err != nil {
		return nil, err
	}
	return nil, p.o.Native.Reveal(m.Path)
}

// nativeFocus brings the window to the front. It is called when the program is
// started a second time.
func (p *Page) nativeFocus(http.ResponseWriter, *http.Request) (any, error) {
	if p.o.Native == nil {
		return nil, errNoWindow
	}
	p.o.Native.Focus()
	return nil, nil
}

// Import links files that were dropped on the window.
func (p *Page) Import(paths []string) {
	p.spawn(func() {
		if _, err := p.link(p.ctx, paths); err != nil {
			p.say("error", err.Error())
		}
	})
}

// nativeOpen opens a web address in the browser.
func (p *Page) nativeOpen(w http.ResponseWriter, r *http.Request) (any, error) {
	if p.o.Native == nil {
		return nil, errNoWindow
	}
	var q struct {
		URL string `json:"url"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return nil, err
	}
	u, err := url.Parse(q.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return nil, bad(textNotWeb, q.URL)
	}
	return nil, p.o.Native.Open(u.String())
}

// nativeSave saves an export to a file that the user chooses.
func (p *Page) nativeSave(w http.ResponseWriter, r *http.Request) (any, error) {
	if p.o.Native == nil {
		return nil, errNoWindow
	}
	var q struct {
		Name string `json:"name"`
		What string `json:"what"` // chat, chats, presets, diagnostics
		Chat int64  `json:"chat"`
		As   string `json:"as"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	var err error
	switch q.What {
	case "chat":
		_, err = p.export(r.Context(), &data, q.Chat, q.As)
	case "chats":
		err = p.o.Store.ExportJSON(r.Context(), &data)
	case "presets":
		err = p.writePresets(r.Context(), &data)
	case "diagnostics":
		err = p.diagnose(&data)
	default:
		err = bad(textCannotSave, q.What)
	}
	if err != nil {
		return nil, err
	}
	path, err := p.o.Native.SaveFile(r.Context(), q.Name)
	if err == nil && path != "" {
		err = writeWhole(path, data.Bytes())
	}
	return map[string]string{"path": path}, err
}

// writeWhole replaces a file atomically.
func writeWhole(path string, data []byte) error {
	part := path + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, path)
}
