package llamaserver

import (
	"encoding/json"
	"net/http"

	"godwit/app/api/wire"
)

// Adapter is an entry in the list of GET /lora-adapters.
type Adapter struct {
	ID    int     `json:"id"`
	Path  string  `json:"path"`
	Scale float32 `json:"scale"`
}

// AdapterScale is an entry in the list of POST /lora-adapters.
type AdapterScale struct {
	ID    *int     `json:"id" need:"" min:"0"`
	Scale *float64 `json:"scale" need:"" min:"-1000" max:"1000"`
}

// adapters lists the adapters with their current scales.
func (d *dialect) adapters() ([]Adapter, error) {
	list, err := d.models.Adapters()
	out := []Adapter{}
	for i, l := range list {
		out = append(out, Adapter{ID: i, Path: l.Path, Scale: l.Scale})
	}
	return out, err
}

// loras answers GET /lora-adapters.
func (d *dialect) loras(w http.ResponseWriter, _ *http.Request) error {
	list, err := d.adapters()
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, list)
	return nil
}

// setLoras answers POST /lora-adapters. The body is a list, and adapters that
// are not in it are switched off. A loaded model gets the new scales by being
// loaded again, once it is no longer in use.
func (d *dialect) setLoras(w http.ResponseWriter, r *http.Request) error {
	body, err := d.Body(w, r)
	if err != nil {
		return err
	}
	list, err := d.adapters()
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if json.Unmarshal(body, &items) != nil {
		return wire.Bad("", "the body is %s, want a list of {\"id\": 0, \"scale\": 1}", wire.Kind(body))
	}
	if len(items) > 256 {
		return wire.Bad("", "%d entries are too many; the limit is 256", len(items))
	}
	by := map[string]float32{}
	for _, a := range list {
		by[a.Path] = 0
	}
	for _, raw := range items {
		var q AdapterScale
		if err := wire.Decode(raw, &q); err != nil {
			return err
		}
		if *q.ID >= len(list) {
			return wire.Bad("id", "there is no adapter %d; the server was started with %d adapters (--lora)", *q.ID, len(list))
		}
		by[list[*q.ID].Path] = float32(*q.Scale)
	}
	d.models.SetAdapters(by)
	wire.WriteJSON(w, http.StatusOK, Done{Success: true})
	return nil
}
