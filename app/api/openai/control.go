package openai

import (
	"net/http"

	"godwit/app/api/wire"
)

// control answers POST /v1/chat/completions/control.
func (d *dialect) control(w http.ResponseWriter, r *http.Request) error {
	var c Control
	if err := wire.Read(d, w, r, &c); err != nil {
		return err
	}
	running := d.controls.Find(c.ID)
	if running == nil {
		e := wire.Fault(http.StatusNotFound, wire.NotFound, "no running answer has the id %.64q", c.ID)
		e.Param = "id"
		return e
	}
	running.EndReasoning()
	wire.WriteJSON(w, http.StatusOK, Controlled{ID: c.ID, Action: c.Action, Success: true})
	return nil
}
