package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"godwit/app/api/anthropic"
	"godwit/app/api/llamaserver"
	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/pool"
	"godwit/engine"
)

// health answers GET /health.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	ready, err := s.pool.Health()
	switch {
	case err != nil:
		return wire.NewQuiet(wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "the model cannot be loaded: %v", err))
	case !ready:
		return wire.NewQuiet(wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "Loading model"))
	}
	wire.WriteJSON(w, http.StatusOK, llamaserver.Health{Status: "ok"})
	return nil
}

// props answers GET /props.
func (s *Server) props(w http.ResponseWriter, r *http.Request) error {
	return s.with(r, r.URL.Query().Get("model"), func(_ context.Context, l *pool.Lease) error {
		t, err := l.Engine.Model().Tokenizer()
		if err != nil {
			return err
		}
		m := &wire.Model{Name: l.Model.Name, Info: l.Model, Engine: l.Engine, Defaults: s.live.Load().defaults}
		base, err := m.Base(&wire.Sampling{})
		if err != nil {
			return err
		}
		p := llamaserver.Props{
			Defaults: llamaserver.PropsDefaults{Params: llamaserver.NewSettings(m, &base, false), Context: l.Engine.Context()},
			Alias:    l.Model.Name, Path: l.Model.Path, BOS: t.Text(t.BOS()), EOS: t.Text(t.EOS()), Build: "godwit " + s.o.Version,
		}
		p.Template, _ = l.Engine.Model().ChatTemplate()
		view, err := l.Engine.View()
		if err != nil {
			return err
		}
		p.Slots = len(view.Slots)
		wire.WriteJSON(w, http.StatusOK, p)
		return nil
	})
}

// slots answers GET /slots.
func (s *Server) slots(w http.ResponseWriter, r *http.Request) error {
	return s.with(r, r.URL.Query().Get("model"), func(_ context.Context, l *pool.Lease) error {
		view, err := l.Engine.View()
		if err != nil {
			return err
		}
		out := []llamaserver.Slot{}
		idle := false
		for _, sl := range view.Slots {
			idle = idle || !sl.Busy
			out = append(out, llamaserver.Slot{
				ID: sl.Slot, Context: l.Engine.Context(), Processing: sl.Busy, Tokens: sl.Tokens, Prompt: sl.Prompt, Decoded: sl.Done,
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
func (s *Server) slot(w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 0 {
		return wire.Bad("id", "%.64q is not a slot", r.PathValue("id"))
	}
	action := r.URL.Query().Get("action")
	var file llamaserver.SlotFile
	switch action {
	case "save", "restore":
		if err := s.read(w, r, &file); err != nil {
			return err
		}
	case "erase":
		if _, err := s.body(w, r); err != nil {
			return err
		}
	default:
		return wire.Bad("action", "%.64q is not one of save, restore, erase", action)
	}
	return s.with(r, r.URL.Query().Get("model"), func(ctx context.Context, l *pool.Lease) error {
		start := time.Now()
		ms := func() float64 { return float64(time.Since(start).Microseconds()) / 1000 }
		switch action {
		case "save":
			n, size, err := s.states.save(ctx, l.Engine, id, file.Filename)
			if err != nil {
				return err
			}
			wire.WriteJSON(w, http.StatusOK, llamaserver.SlotSaved{Slot: id, File: file.Filename, Saved: n, Written: size, Timings: llamaserver.SlotTimes{Save: ms()}})
		case "restore":
			n, size, err := s.states.restore(ctx, l.Engine, id, s.whose(r).Salt(""), file.Filename)
			if err != nil {
				return err
			}
			from, err := l.Engine.ReuseFrom(ctx, id)
			if err != nil && !errors.Is(err, engine.ErrSlot) { // a request has taken it already
				return err
			}
			wire.WriteJSON(w, http.StatusOK, llamaserver.SlotRestored{Slot: id, File: file.Filename, Restored: n, From: from, Read: size, Timings: llamaserver.SlotTimes{Restore: ms()}})
		default:
			n, err := l.Engine.EraseSlot(ctx, id)
			if err != nil {
				return err
			}
			wire.WriteJSON(w, http.StatusOK, llamaserver.SlotErased{Slot: id, Erased: n})
		}
		return nil
	})
}

// tokenize answers POST /tokenize.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var q llamaserver.TokenizeRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	return s.with(r, q.Model, func(_ context.Context, l *pool.Lease) error {
		t, err := l.Engine.Model().Tokenizer()
		if err != nil {
			return err
		}
		tokens, err := q.Encode(t)
		if err != nil {
			return err
		}
		out := llamaserver.Tokens{Tokens: tokens}
		if q.WithPieces {
			pieces := []llamaserver.TokenPiece{}
			for _, id := range tokens {
				pieces = append(pieces, llamaserver.TokenPiece{ID: id, Piece: piece(t.AppendPiece(nil, id, true))})
			}
			out.Tokens = pieces
		}
		wire.WriteJSON(w, http.StatusOK, out)
		return nil
	})
}

// piece is a text, or a list of its bytes where it is not valid UTF-8.
func piece(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	list := make([]int, len(b))
	for i, c := range b {
		list[i] = int(c)
	}
	return list
}

// detokenize answers POST /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var q llamaserver.DetokenizeRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	return s.with(r, q.Model, func(_ context.Context, l *pool.Lease) error {
		t, err := l.Engine.Model().Tokenizer()
		if err == nil {
			err = q.Check(t.VocabSize())
		}
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, llamaserver.Text{Content: string(t.Decode(q.Tokens, true))})
		return nil
	})
}

// applyTemplate answers POST /apply-template.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	c, err := openai.ParseChat(body)
	if err != nil {
		return err
	}
	return s.with(r, c.Model, func(ctx context.Context, l *pool.Lease) error {
		list, err := c.Requests(&wire.Model{Name: l.Model.Name, Info: l.Model, Engine: l.Engine, Defaults: s.live.Load().defaults})
		if err != nil {
			return err
		}
		text, err := l.Engine.Model().ChatText(ctx, list[0].Chat)
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, llamaserver.Prompt{Prompt: text})
		return nil
	})
}

// countTokens answers POST /v1/messages/count_tokens.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	c, err := anthropic.ParseCount(body, s.live.Load().anthropic)
	if err != nil {
		return err
	}
	notices, unused := c.Notes()
	s.note(w, notices, unused)
	return s.with(r, c.Model, func(ctx context.Context, l *pool.Lease) error {
		chat, err := c.Chat(&wire.Model{Info: l.Model, Defaults: s.live.Load().defaults})
		if err != nil {
			return err
		}
		tokens, err := l.Engine.Encode(ctx, &engine.Request{Chat: chat})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, anthropic.Count{Tokens: len(tokens)})
		return nil
	})
}

// metricsText answers GET /metrics: ours, and the same under llama-server's
// names, which existing dashboards read.
func (s *Server) metricsText(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.metrics.WritePrometheus(w)
	c := &s.counters
	for _, m := range []struct {
		name, kind string
		value      float64
	}{
		{"prompt_tokens_total", "counter", float64(c.prompt.Get())},
		{"prompt_seconds_total", "counter", c.promptSeconds.Get()},
		{"tokens_predicted_total", "counter", float64(c.generated.Get())},
		{"tokens_predicted_seconds_total", "counter", c.decodeSeconds.Get()},
		{"n_decode_total", "counter", float64(c.steps.Get())},
	} {
		fmt.Fprintf(w, "# TYPE llamacpp:%[1]s %[2]s\nllamacpp:%[1]s %[3]g\n", m.name, m.kind, m.value)
	}
	use := s.pool.Usage()
	for _, m := range []struct {
		name  string
		value float64
	}{
		{"requests_processing", float64(use.Busy)},
		{"requests_deferred", float64(use.Queued)},
		{"kv_cache_tokens", float64(use.Tokens)},
		{"kv_cache_usage_ratio", use.Share()},
	} {
		fmt.Fprintf(w, "# TYPE llamacpp:%[1]s gauge\nllamacpp:%[1]s %[2]g\n", m.name, m.value)
	}
	fmt.Fprintf(w, "# TYPE godwit_cells gauge\ngodwit_cells{state=\"free\"} %d\ngodwit_cells{state=\"used\"} %d\n", use.Free, use.Cells-use.Free)
	fmt.Fprintf(w, "# TYPE godwit_sparse_v_rows gauge\ngodwit_sparse_v_rows{state=\"considered\"} %d\ngodwit_sparse_v_rows{state=\"skipped\"} %d\n", use.Considered, use.Skipped)
	fmt.Fprintf(w, "# TYPE godwit_kv_saturated_blocks gauge\ngodwit_kv_saturated_blocks %d\n", use.Saturated)
	s.writeMemory(w)
	fmt.Fprintf(w, "# TYPE godwit_models_loaded gauge\ngodwit_models_loaded %d\n", use.Models)
	return nil
}
