package anthropic

import (
	"net/http"
	"time"

	"godwit/app/api/wire"
	"godwit/app/pool"
)

// Listed answers the model endpoints for Anthropic's clients, which send a version
// header and read no other form. It reports false for other clients.
func Listed(w http.ResponseWriter, r *http.Request, list []pool.Model, all bool, started time.Time) (done bool, err error) {
	if r.Header.Get("Anthropic-Version") == "" {
		return false, nil
	}
	out := make([]Model, len(list))
	for i := range list {
		m := &list[i]
		created, size := started, m.Standing.Context
		if !m.Added.IsZero() {
			created = m.Added
		}
		if size == 0 {
			size = m.Info.Context
		}
		out[i] = NewModel(m.Name, m.Title, time.Unix(created.Unix(), 0), size)
	}
	if !all {
		wire.WriteJSON(w, http.StatusOK, out[0])
		return true, nil
	}
	limit, err := wire.Limit(r, 20, 1000)
	if err != nil {
		return false, err
	}
	q := r.URL.Query()
	wire.WriteJSON(w, http.StatusOK, Page(out, func(m *Model) string { return m.ID }, limit, q.Get("before_id"), q.Get("after_id")))
	return true, nil
}
