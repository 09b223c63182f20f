package api

import (
	"fmt"
	"testing"

	"godwit/app/api/anthropic"
	"godwit/app/api/llamaserver"
	"godwit/app/api/ollama"
	"godwit/app/api/wire"
)

// An error has the form of the dialect to which its path belongs, even for unknown
// paths.
func TestErrorForms(t *testing.T) {
	v := start(t, nil)
	body := (*wire.Error).Body
	for path, form := range map[string]func(*wire.Error) any{
		"/v1/chat/completions": body, "/v1/models/{id...}": body, "/models": body, "/": body, "/none": body, "/api": body, "/api/kv": body,
		"/api/kv/none": body, "/api/prefixes": body, "/api/v0/none": body, "/api/v1/chat": body, "/v1/chat/completions/input_tokens": body,
		"/v1/messages": anthropic.ErrorForm, "/v1/messages/none": anthropic.ErrorForm,
		"/health": llamaserver.ErrorForm, "/slots/3": llamaserver.ErrorForm, "/models/load": llamaserver.ErrorForm, "/embedding": llamaserver.ErrorForm, "/v1/rerank": llamaserver.ErrorForm,
		"/api/chat": ollama.ErrorForm, "/api/none": ollama.ErrorForm, "/api/blobs/x": ollama.ErrorForm, "/api/prefixes/none": ollama.ErrorForm,
	} {
		e := &wire.Error{Status: 400}
		if got, want := fmt.Sprintf("%T", v.endpoints.form(path)(e)), fmt.Sprintf("%T", form(e)); got != want {
			t.Errorf("%s: the form is %s, want %s", path, got, want)
		}
	}
	for _, r := range v.endpoints.all {
		if r.Form == nil || r.Do == nil || r.About == "" {
			t.Errorf("%s %s is incomplete", r.Method, r.Path)
		}
	}
}
