package api

import (
	"context"
	"net/http"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/pool"
	"godwit/engine"
)

// readResponses reads a call of the responses API.
func (s *Server) readResponses(body []byte) (*openai.Responses, error) {
	return openai.ParseResponses(body, &s.memory)
}

// responses answers POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	c, err := s.readResponses(body)
	if err != nil {
		return err
	}
	switch {
	case c.Empty:
		return s.emptyResponse(w, c)
	case c.Background:
		return s.background(w, r, c)
	}
	return s.answer(w, r, c)
}

// emptyResponse answers a request without input, by which clients find out
// whether a server is there. No model is loaded for it.
func (s *Server) emptyResponse(w http.ResponseWriter, c *openai.Responses) error {
	m := &wire.Model{Name: c.Model, Defaults: s.live.Load().defaults}
	end := engine.Event{Kind: engine.End, Result: &engine.Result{Finish: engine.FinishStop}}
	if !c.Head().Stream {
		whole := c.Whole(m)
		whole.Add(0, &end)
		wire.WriteJSON(w, http.StatusOK, whole.Body())
		return nil
	}
	out, reply := wire.NewOut(w, false), c.Stream(m)
	for _, step := range []func() error{
		func() error { return reply.Start(out) }, func() error { return reply.Add(out, 0, &end) }, func() error { return reply.End(out) }, out.Flush,
	} {
		if err := step(); err != nil {
			s.log.Debug("client has gone", "err", err)
			return nil
		}
	}
	return nil
}

// background has a response made behind the request. It ends with the server or
// when it is cancelled.
func (s *Server) background(w http.ResponseWriter, r *http.Request, c *openai.Responses) error {
	ctx, cancel := context.WithCancel(s.ctx)
	body, done, err := s.memory.Begin(c, cancel)
	if err != nil {
		cancel()
		return err
	}
	head, whose := c.Head(), s.whose(r)
	s.note(w, head.Notices, head.Unused)
	s.work.Go(func() {
		defer done()
		defer cancel()
		items := make(chan item, 16)
		s.work.Go(func() { s.produce(ctx, c, whose, items) })
		if _, err := collect(ctx, c, items, func(text string) { s.log.Info("request notice", "notice", text) }); err != nil && ctx.Err() == nil {
			s.memory.Fail(c, s.explain(err))
		}
	})
	wire.WriteJSON(w, http.StatusOK, body)
	return nil
}

// keptResponse answers GET /v1/responses/{id}.
func (s *Server) keptResponse(w http.ResponseWriter, r *http.Request) error {
	if v := r.URL.Query().Get("stream"); v != "" && v != "false" {
		return wire.Bad("stream", "a kept response is not streamed")
	}
	body, err := s.memory.Body(r.PathValue("id"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, body)
	return nil
}

// dropResponse answers DELETE /v1/responses/{id}.
func (s *Server) dropResponse(w http.ResponseWriter, r *http.Request) error {
	gone, err := s.memory.Delete(r.PathValue("id"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, gone)
	return nil
}

// cancelResponse answers POST /v1/responses/{id}/cancel.
func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) error {
	body, err := s.memory.Cancel(r.PathValue("id"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, body)
	return nil
}

// inputItems answers GET /v1/responses/{id}/input_items.
func (s *Server) inputItems(w http.ResponseWriter, r *http.Request) error {
	limit, err := wire.Limit(r, 20, 100)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	order := q.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return wire.Bad("order", "%.64q is not one of asc, desc", order)
	}
	list, err := s.memory.Input(r.PathValue("id"), q.Get("after"), limit, order == "asc")
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, list)
	return nil
}

// inputTokens answers POST /v1/responses/input_tokens.
func (s *Server) inputTokens(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	c, err := s.readResponses(body)
	if err != nil {
		return err
	}
	notices, unused := c.Notes()
	s.note(w, notices, unused)
	if c.Empty {
		wire.WriteJSON(w, http.StatusOK, openai.TokenCount{Object: "response.input_tokens"})
		return nil
	}
	return s.with(r, c.Model, func(ctx context.Context, l *pool.Lease) error {
		chat, err := c.Conversation(&wire.Model{Info: l.Model, Engine: l.Engine, Defaults: s.live.Load().defaults})
		if err != nil {
			return err
		}
		tokens, err := l.Engine.Encode(ctx, &engine.Request{Chat: chat})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, openai.TokenCount{Object: "response.input_tokens", Tokens: len(tokens)})
		return nil
	})
}

// control answers POST /v1/chat/completions/control.
func (s *Server) control(w http.ResponseWriter, r *http.Request) error {
	var c openai.Control
	if err := s.read(w, r, &c); err != nil {
		return err
	}
	s.controls.mu.Lock()
	running := s.controls.byID[c.ID]
	s.controls.mu.Unlock()
	if running == nil {
		e := wire.Fault(http.StatusNotFound, wire.NotFound, "no running answer has the id %.64q", c.ID)
		e.Param = "id"
		return e
	}
	running.EndReasoning()
	wire.WriteJSON(w, http.StatusOK, openai.Controlled{ID: c.ID, Action: c.Action, Success: true})
	return nil
}
