package llamaserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"godwit/app/api/wire"
	"godwit/engine"
)

// health answers GET /health.
func (d *dialect) health(w http.ResponseWriter, _ *http.Request) error {
	ready, err := d.models.Health()
	switch {
	case err != nil:
		return wire.NewQuiet(wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "the model cannot be loaded: %v", err))
	case !ready:
		return wire.NewQuiet(wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "Loading model"))
	}
	wire.WriteJSON(w, http.StatusOK, Health{Status: "ok"})
	return nil
}

// props answers GET /props.
func (d *dialect) props(w http.ResponseWriter, r *http.Request) error {
	return d.Use(r, asLoaded(r.URL.Query().Get("model")), func(_ context.Context, m *wire.Model) error {
		t, err := m.Engine.Model().Tokenizer()
		if err != nil {
			return err
		}
		base, err := m.Base(&wire.Sampling{})
		if err != nil {
			return err
		}
		p := Props{
			Defaults: PropsDefaults{Params: NewSettings(m, &base, false), Context: m.Engine.Context()},
			Alias:    m.Name, Path: m.Info.Path, BOS: t.Text(t.BOS()), EOS: t.Text(t.EOS()), Build: "godwit " + d.version,
		}
		p.Template, _ = m.Engine.Model().ChatTemplate()
		view, err := m.Engine.View()
		if err != nil {
			return err
		}
		p.Slots = len(view.Slots)
		wire.WriteJSON(w, http.StatusOK, p)
		return nil
	})
}

// slots answers GET /slots.
func (d *dialect) slots(w http.ResponseWriter, r *http.Request) error {
	return d.Use(r, asLoaded(r.URL.Query().Get("model")), func(_ context.Context, m *wire.Model) error {
		view, err := m.Engine.View()
		if err != nil {
			return err
		}
		out := []Slot{}
		idle := false
		for _, sl := range view.Slots {
			idle = idle || !sl.Busy
			out = append(out, Slot{
				ID: sl.Slot, Context: m.Engine.Context(), Processing: sl.Busy, Tokens: sl.Tokens, Prompt: sl.Prompt, Decoded: sl.Done,
			})
		}
		if !idle && r.URL.Query().Get("fail_on_no_slot") != "" {
			return wire.NewQuiet(wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "all %d slots are busy", len(out)))
		}
		wire.WriteJSON(w, http.StatusOK, out)
		return nil
	})
}

// slot answers POST /slots/{id}?action=save|restore|erase.
func (d *dialect) slot(w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 0 {
		return wire.Bad("id", "%.64q is not a slot number", r.PathValue("id"))
	}
	action := r.URL.Query().Get("action")
	var file SlotFile
	switch action {
	case "save", "restore":
		if err := wire.Read(d, w, r, &file); err != nil {
			return err
		}
	case "erase":
		if _, err := d.Body(w, r); err != nil {
			return err
		}
	default:
		return wire.Bad("action", "%.64q is not one of save, restore, erase", action)
	}
	return d.Use(r, asLoaded(r.URL.Query().Get("model")), func(ctx context.Context, m *wire.Model) error {
		start := time.Now()
		ms := func() float64 { return float64(time.Since(start).Microseconds()) / 1000 }
		switch action {
		case "save":
			n, size, err := d.states.save(ctx, m.Engine, id, file.Filename)
			if err != nil {
				return err
			}
			wire.WriteJSON(w, http.StatusOK, SlotSaved{Slot: id, File: file.Filename, Saved: n, Written: size, Timings: SlotTimes{Save: ms()}})
		case "restore":
			n, size, err := d.states.restore(ctx, m.Engine, id, d.host.Client(r).Whose.Salt(""), file.Filename)
			if err != nil {
				return err
			}
			from, err := m.Engine.ReuseFrom(ctx, id)
			if err != nil && !errors.Is(err, engine.ErrSlot) { // another request has taken the slot in the meantime
				return err
			}
			wire.WriteJSON(w, http.StatusOK, SlotRestored{Slot: id, File: file.Filename, Restored: n, From: from, Read: size, Timings: SlotTimes{Restore: ms()}})
		default:
			n, err := m.Engine.EraseSlot(ctx, id)
			if err != nil {
				return err
			}
			wire.WriteJSON(w, http.StatusOK, SlotErased{Slot: id, Erased: n})
		}
		return nil
	})
}
