package llamaserver

import (
	"context"
	"net/http"

	"godwit/app/api/wire"
)

// Named is a body with the name of a model.
type Named struct {
	Model string `json:"model" need:"" most:"512" doc:"Name of the model."`
}

// Done is the response to an action.
type Done struct {
	Success bool `json:"success"`
}

// load answers POST /models/load.
func (d *dialect) load(w http.ResponseWriter, r *http.Request) error {
	var q Named
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	return d.Use(r, wire.Head{Model: q.Model}, func(context.Context, *wire.Model) error {
		wire.WriteJSON(w, http.StatusOK, Done{true})
		return nil
	})
}

// unload answers POST /models/unload.
func (d *dialect) unload(w http.ResponseWriter, r *http.Request) error {
	var q Named
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	if err := d.shelf.Unload(q.Model); err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, Done{true})
	return nil
}

// download answers POST /models.
func (d *dialect) download(w http.ResponseWriter, r *http.Request) error {
	var q Named
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	if _, err := d.shelf.Download(q.Model); err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, Done{true})
	return nil
}

// remove answers DELETE /models.
func (d *dialect) remove(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("model")
	if name == "" {
		return wire.Bad("model", "this query parameter is required")
	}
	if err := d.shelf.Remove(r.Context(), name); err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, Done{true})
	return nil
}
