package page

import (
	"net/http"
	"strconv"

	"godwit/app/config"
	"godwit/app/store"
	"godwit/engine"
)

const configPath = "/app/config.json"

// handler returns a value that is sent as JSON, or an error. If both are nil, the
// response has no body, unless the handler has sent one itself.
type handler func(w http.ResponseWriter, r *http.Request) (any, error)

// sent is the value of a handler that has written its response.
type sent struct{}

// endpoints returns the handlers by their patterns.
func (p *Page) endpoints() map[string]handler {
	return map[string]handler{
		"GET " + configPath: p.config,
		"GET /app/state":    p.state,
		"GET /app/events":   p.follow,

		"GET /app/chats":                     p.listChats,
		"POST /app/chats":                    p.createChat,
		"GET /app/chats/{id}":                p.openChat,
		"POST /app/chats/{id}":               p.changeChat,
		"DELETE /app/chats/{id}":             p.deleteChat,
		"GET /app/chats/{id}/messages":       p.listMessages,
		"POST /app/chats/{id}/messages":      p.sendMessage,
		"POST /app/chats/{id}/seen":          p.seenChat,
		"GET /app/chats/{id}/usage":          p.usage,
		"GET /app/chats/{id}/export":         p.exportChat,
		"GET /app/export":                    p.exportAll,
		"POST /app/import":                   p.importChats,
		"GET /app/search":                    p.search,
		"POST /app/folders":                  p.saveFolder,
		"DELETE /app/folders/{id}":           p.deleteFolder,
		"POST /app/presets":                  p.savePreset,
		"GET /app/presets/export":            p.exportPresets,
		"POST /app/presets/import":           p.importPresets,
		"DELETE /app/presets/{id}":           p.deletePreset,
		"POST /app/tools/check":              p.checkTools,
		"POST /app/messages/{id}/edit":       p.editMessage,
		"POST /app/messages/{id}/regenerate": p.regenerate,
		"POST /app/messages/{id}/continue":   p.continueAnswer,
		"POST /app/messages/{id}/choose":     p.choose,
		"POST /app/messages/{id}/stop":       p.stopAnswer,
		"GET /app/messages/{id}/stream":      p.streamAnswer,
		"DELETE /app/messages/{id}":          p.deleteMessage,

		"GET /app/models/{name}":         p.showModel,
		"DELETE /app/models/{name}":      p.removeModel,
		"POST /app/models/{name}/load":   p.loadModel,
		"POST /app/models/{name}/cancel": p.cancelLoad,
		"POST /app/models/{name}/unload": p.unloadModel,
		"POST /app/models/{name}/settle": p.stopPreparing,
		"POST /app/models/{name}/reload": p.reloadModel,
		"POST /app/models/{name}/reveal": p.revealModel,
		"POST /app/models/{name}/tune":   p.tuneModel,
		"POST /app/library/import":       p.importModel,
		"POST /app/library/pick":         p.pickModels,
		"POST /app/library/upload":       p.uploadModel,
		"POST /app/library/refresh":      p.refreshLibrary,
		"GET /app/hub/search":            p.searchHub,
		"GET /app/starters":              p.starters,
		"POST /app/downloads":            p.startDownload,
		"POST /app/downloads/pause":      p.pauseDownload,
		"POST /app/downloads/discard":    p.discardDownload,

		"GET /app/settings":        p.listSettings,
		"POST /app/settings":       p.saveSettings,
		"GET /app/kv/types":        p.cacheTypes,
		"POST /app/kv/plan":        p.planCache,
		"GET /app/kv/active":       p.activeCache,
		"GET /app/quality":         p.quality,
		"POST /app/quality":        p.startQuality,
		"POST /app/quality/cancel": p.cancelQuality,
		"GET /app/diagnostics":     p.diagnostics,
		"DELETE /app/notices/{id}": p.dropNotice,
		"POST /app/native/save":    p.nativeSave,
		"POST /app/native/focus":   p.nativeFocus,
		"POST /app/native/open":    p.nativeOpen,
		"POST /app/native/folder":  p.nativeFolder,
	}
}

func (p *Page) routes() {
	p.mux = http.NewServeMux()
	for pattern, h := range p.endpoints() {
		p.mux.Handle(pattern, p.handle(h))
	}
	p.mux.HandleFunc("/app/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, refuse(http.StatusNotFound, "not_found", textNoEndpoint))
	})
}

func (p *Page) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := h(w, r)
		switch {
		case err != nil:
			fail(w, err)
		case body == nil:
			w.WriteHeader(http.StatusNoContent)
		case body != sent{}:
			send(w, http.StatusOK, body)
		}
	})
}

// id returns the id in the path of a request.
func id(r *http.Request) (int64, error) {
	n, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || n <= 0 {
		return 0, bad(textNotID, r.PathValue("id"))
	}
	return n, nil
}

// number returns a number in the query, or 0 if it is missing.
func number(r *http.Request, name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, bad(textNotNumber, name, text)
	}
	return n, nil
}

// Config is what a page needs before its first request.
type Config struct {
	Base    string `json:"base"` // URL of the server; empty if the page comes from it
	Token   string `json:"token"`
	Desktop bool   `json:"desktop"`
	Version string `json:"version"`
}

// Config returns the configuration of the page in a window. base is the server's
// URL.
func (p *Page) Config(base string) Config {
	return Config{Base: base, Token: p.token, Desktop: p.o.Native != nil, Version: p.o.Version}
}

func (p *Page) config(http.ResponseWriter, *http.Request) (any, error) {
	return p.Config(""), nil
}

// parameter describes a sampling parameter.
type parameter struct {
	Name    string  `json:"name"`
	Help    string  `json:"help"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Default float64 `json:"default"`
	Integer bool    `json:"integer"`
}

// state returns everything that a page shows when it opens.
func (p *Page) state(_ http.ResponseWriter, r *http.Request) (any, error) {
	s, err := p.o.Settings.Settings()
	if err != nil {
		return nil, err
	}
	presets, err := p.o.Store.Presets(r.Context())
	if err != nil {
		return nil, err
	}
	if err := p.refresh(); err != nil {
		return nil, err
	}
	return struct {
		Models    []model        `json:"models"`
		Downloads []download     `json:"downloads"`
		Notices   []notice       `json:"notices"`
		Presets   []store.Preset `json:"presets"`
		shared
		Welcomed bool   `json:"welcomed"`
		Version  string `json:"version"`
	}{p.list(), p.downloads.list(), p.notices.all(), presets, sharedOf(&s), s.App.Welcomed, p.o.Version}, nil
}

func (p *Page) dropNotice(_ http.ResponseWriter, r *http.Request) (any, error) {
	p.notices.drop(r.PathValue("id"))
	p.noticesChanged()
	return nil, nil
}

// shared holds the settings that every view shows. Changes are sent as events.
type shared struct {
	Parameters []parameter `json:"parameters"`
	Predict    int         `json:"predict"` // maximum tokens of an answer; 0 for no limit
	Theme      string      `json:"theme"`
}

func sharedOf(s *config.Settings) shared {
	return shared{parameters(&s.Sampling), max(s.Sampling.Predict, 0), s.App.Theme}
}

// parameters lists the sampling parameters, with the defaults of the settings.
func parameters(s *config.Sampling) []parameter {
	defaults := sampling(s)
	var list []parameter
	for _, f := range engine.SamplingFields() {
		list = append(list, parameter{f.Name, f.Help, f.Min, f.Max, f.Value(&defaults), f.Integer})
	}
	return list
}
