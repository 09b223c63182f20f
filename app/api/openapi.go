package api

import (
	"net/http"
	"regexp"
	"strings"

	"godwit/app/api/wire"
)

// wildcard matches a variable in a path.
var wildcard = regexp.MustCompile(`\{([a-z]+)(\.\.\.)?\}`)

// openapi builds the OpenAPI document from the table of endpoints and their wire
// types.
func (s *Server) openapi() map[string]any {
	schemas := wire.Schemas{}
	paths := map[string]map[string]any{}
	failure := map[string]any{"description": "An error in the form of the dialect.", "content": content(map[string]any{"type": "object"})}
	for _, r := range s.endpoints.all {
		op := map[string]any{"summary": r.About, "operationId": operation(r.Method, r.Path)}
		if r.Request != nil {
			op["requestBody"] = map[string]any{"required": true, "content": content(schemas.Request(r.Request))}
		}
		answer := map[string]any{"description": "Done."}
		if r.Answer != nil {
			answer["content"] = content(schemas.Answer(r.Answer))
		}
		op["responses"] = map[string]any{"200": answer, "default": failure}
		var parameters []any
		for _, m := range wildcard.FindAllStringSubmatch(r.Path, -1) {
			parameters = append(parameters, parameter("path", m[1], true))
		}
		for _, name := range r.Query {
			parameters = append(parameters, parameter("query", name, false))
		}
		if parameters != nil {
			op["parameters"] = parameters
		}
		path := documented(r.Path)
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(r.Method)] = op
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": "Godwit", "version": s.o.Version, "description": "Language models on this machine."},
		"paths":   paths,
		"components": map[string]any{
			"schemas":         schemas,
			"securitySchemes": map[string]any{"key": map[string]any{"type": "http", "scheme": "bearer"}},
		},
		"security": []any{map[string]any{}, map[string]any{"key": []any{}}},
	}
}

// documented returns a route's path in the document's notation.
func documented(path string) string {
	return wildcard.ReplaceAllString(strings.TrimSuffix(path, "{$}"), "{$1}")
}

func content(schema map[string]any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schema}}
}

func parameter(in, name string, required bool) map[string]any {
	return map[string]any{"in": in, "name": name, "required": required, "schema": map[string]any{"type": "string"}}
}

// operation returns a unique name for an endpoint.
func operation(method, path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
	return strings.ToLower(method) + "_" + strings.Join(words, "_")
}

func (s *Server) openapiDocument(w http.ResponseWriter, _ *http.Request) error {
	wire.WriteJSON(w, http.StatusOK, s.openapi())
	return nil
}
