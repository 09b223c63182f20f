package lmstudio

import (
	"net/http"

	"godwit/app/api/wire"
	"godwit/app/pool"
)

// models answers GET /api/v0/models.
func models(shelf wire.Shelf, w http.ResponseWriter) error {
	list, err := shelf.Models()
	if err != nil {
		return err
	}
	wire.LoadedFirst(list)
	out := Models{Object: "list", Data: []Model{}}
	for i := range list {
		out.Data = append(out.Data, newModel(&list[i]))
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

// model answers GET /api/v0/models/{id}.
func model(shelf wire.Shelf, w http.ResponseWriter, r *http.Request) error {
	m, err := shelf.Named(r.PathValue("id"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, newModel(&m))
	return nil
}

func newModel(m *pool.Model) Model {
	return Model{
		ID: m.Name, Object: "model", Type: Type(pool.Embeds(&m.Model), m.Vision), Publisher: m.Publisher(), Arch: m.Arch,
		Compatibility: "gguf", Quant: m.Quant, State: State(m.Loaded()),
		MaxContext: m.Info.Context, LoadedContext: m.Standing.Context,
	}
}
