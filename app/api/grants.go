package api

import (
	"net/http"
	"time"

	"godwit/app/api/wire"
	"godwit/app/keys"
)

// managing lists the endpoints that change the server for all clients.
var managing = map[string]bool{
	"POST /api/pull": true, "DELETE /api/delete": true, "POST /api/create": true, "POST /api/copy": true, "POST /api/blobs/{digest}": true,
	"POST /models": true, "DELETE /models": true, "POST /models/load": true, "POST /models/unload": true,
	"POST /api/v1/models/load": true, "POST /api/v1/models/unload": true, "POST /api/v1/models/download": true,
	"POST /slots/{id}": true, "POST /lora-adapters": true, "DELETE /api/prefixes": true,
}

// governing names the setting that an endpoint changes.
var governing = map[string]string{"POST /lora-adapters": "engine.lora"}

// permit returns an error if a key with limits would change the server for others.
func permit(g *keys.Grant, what string) error {
	if !g.Limited() {
		return nil
	}
	e := wire.Fault(http.StatusForbidden, wire.Forbidden, "API key %s has limits, so it cannot %s", g.Name(), what)
	e.Code = "key_not_allowed"
	return e
}

// limit returns the function that counts the tokens of a named key. It returns nil
// for other clients.
func limit(g *keys.Grant) func(tokens int) error {
	if g == nil {
		return nil
	}
	return func(tokens int) error { return g.Spend(time.Now(), tokens) }
}
