package llamaserver

import (
	"net/http"
	"time"

	"godwit/app/api/wire"
)

// ModelEvent is a message of GET /models/sse.
type ModelEvent struct {
	Model string `json:"model"`
	Event string `json:"event"` // model_status, model_remove, models_reload, download_progress, download_finished, download_failed
	Data  any    `json:"data,omitempty"`
}

// ModelStatus is the data of a model_status event.
type ModelStatus struct {
	Status string `json:"status"`
}

// FileProgress is the progress of a download, by the name of the file or model.
type FileProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// eventsBeat is the interval of heartbeats on an idle stream. eventsWrite is
// the time in which a client must receive a message.
const (
	eventsBeat  = 15 * time.Second
	eventsWrite = 30 * time.Second
)

// standing is the state of the models and downloads that was last sent to a
// client of GET /models/sse.
type standing struct {
	models    map[string]string
	downloads map[string]wire.Download
}

// events answers GET /models/sse.
func (d *dialect) events(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	changed := d.shelf.Changed(ctx)
	control := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-store")
	write := func(text []byte) error {
		if err := control.SetWriteDeadline(time.Now().Add(eventsWrite)); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}
	beat := time.NewTicker(eventsBeat)
	defer beat.Stop()
	told := standing{}
	for {
		for _, e := range told.news(d.shelf) {
			if write(append(append([]byte("data: "), wire.JSON(e)...), "\n\n"...)) != nil {
				return nil // the client has disconnected
			}
		}
		if told.models == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-changed:
			if !open {
				return nil // the server is stopping
			}
		case <-beat.C:
			if write([]byte(": alive\n\n")) != nil {
				return nil
			}
		}
	}
}

// news returns the events since the last call. The first call returns the state of
// every model.
func (s *standing) news(m wire.Shelf) (list []ModelEvent) {
	models, err := m.Models()
	if err != nil {
		return nil
	}
	wire.LoadedFirst(models)
	first := s.models == nil
	now := map[string]string{}
	for _, x := range models {
		state := string(x.State)
		if state == "failed" {
			state = "unloaded"
		}
		now[x.Name] = state
		if old, there := s.models[x.Name]; !there || old != state {
			list = append(list, ModelEvent{x.Name, "model_status", ModelStatus{state}})
		}
		if _, there := s.models[x.Name]; !there && !first {
			list = append(list, ModelEvent{"*", "models_reload", nil})
		}
	}
	for name := range s.models {
		if _, there := now[name]; !there {
			list = append(list, ModelEvent{name, "model_remove", nil})
		}
	}
	s.models = now
	seen := map[string]wire.Download{}
	for _, d := range m.Downloads() {
		seen[d.ID] = d
		old, there := s.downloads[d.ID]
		switch {
		case first || there && old.Status == d.Status && old.Done == d.Done:
		case d.Status == "completed":
			list = append(list, ModelEvent{d.Name, "download_finished", nil})
		case d.Status == "failed":
			list = append(list, ModelEvent{d.Name, "download_failed", map[string]string{"message": d.Err}})
		default:
			list = append(list, ModelEvent{d.Name, "download_progress", map[string]FileProgress{d.Name: {d.Done, d.Total}}})
		}
	}
	s.downloads = seen
	return list
}
