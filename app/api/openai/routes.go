package openai

import (
	"maps"
	"net/http"
	"slices"

	"godwit/app/api/wire"
)

// Routes lists the endpoints of OpenAI's API.
func Routes(svc wire.Service, host wire.Host, shelf wire.Shelf, p Parts) []wire.Route {
	d := &dialect{svc, host, p.Memory, p.Controls}
	chat := wire.Generate(svc, ParseChat)
	return slices.Concat([]wire.Route{
		wire.On("POST", "/v1/chat/completions", "Answer a conversation.", chat, ChatRequest{}, ChatCompletion{}),
		wire.On("POST", "/v1/chat/completions/control", "Change an answer while it is generated.", d.control, Control{}, Controlled{}),
		wire.On("POST", "/v1/completions", "Continue a text.", wire.Generate(svc, ParseCompletion), CompletionRequest{}, TextCompletion{}),
		wire.On("POST", "/v1/responses", "Answer a conversation (OpenAI's Responses API).", d.responses, ResponsesRequest{}, Response{}),
		wire.On("GET", "/v1/responses/{id}", "Return a kept response.", d.keptResponse, nil, Response{}, "stream"),
		wire.On("DELETE", "/v1/responses/{id}", "Delete a kept response.", d.dropResponse, nil, Deleted{}),
		wire.On("POST", "/v1/responses/{id}/cancel", "Cancel a background response.", d.cancelResponse, nil, Response{}),
		wire.On("GET", "/v1/responses/{id}/input_items", "List the input of a kept response.", d.inputItems, nil, ItemList{}, "after", "limit", "order"),
		wire.On("POST", "/v1/responses/input_tokens", "Count the tokens of a conversation.", d.inputTokens, ResponsesRequest{}, TokenCount{}),
		wire.On("POST", "/chat/completions", "Same as /v1/chat/completions.", chat, ChatRequest{}, ChatCompletion{}),
	}, libraryRoutes(svc, shelf, p.Other), refusalRoutes())
}

// Refusals maps endpoints of OpenAI that need other kinds of models to the
// reason.
var Refusals = map[string]string{
	"/v1/moderations":          "moderation needs a classifier; ask the model in a chat, with a JSON schema for the answer",
	"/v1/audio/speech":         "audio is not supported, because models write only text",
	"/v1/audio/transcriptions": "audio is not supported, because models do not read audio",
	"/v1/audio/translations":   "audio is not supported, because models do not read audio",
	"/v1/images/generations":   "images cannot be generated, because models write only text",
	"/v1/images/edits":         "images cannot be generated, because models write only text",
	"/v1/images/variations":    "images cannot be generated, because models write only text",
}

// refusalRoutes answer unsupported endpoints with the reason.
func refusalRoutes() []wire.Route {
	var list []wire.Route
	for _, path := range slices.Sorted(maps.Keys(Refusals)) {
		list = append(list, wire.On("POST", path, "Refused: "+Refusals[path]+".", func(http.ResponseWriter, *http.Request) error {
			return wire.NewQuiet(wire.Fault(http.StatusNotImplemented, wire.Unsupported, "%s", Refusals[path]))
		}, nil, nil))
	}
	return list
}
