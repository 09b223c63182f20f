package openai

import (
	"context"
	"net/http"

	"godwit/app/api/wire"
	"godwit/engine"
)

// responses answers POST /v1/responses.
func (d *dialect) responses(w http.ResponseWriter, r *http.Request) error {
	body, err := d.Body(w, r)
	if err != nil {
		return err
	}
	c, err := ParseResponses(body, d.memory)
	if err != nil {
		return err
	}
	switch {
	case c.Empty:
		return d.emptyResponse(w, c)
	case c.Background:
		return d.background(w, r, c)
	}
	return d.Answer(w, r, c)
}

// emptyResponse answers a request without input, which clients send to test
// whether a server runs. It does not load a model.
func (d *dialect) emptyResponse(w http.ResponseWriter, c *Responses) error {
	m := &wire.Model{Name: c.Model, Defaults: d.host.Defaults()}
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
			return nil //nolint:nilerr // the client has gone
		}
	}
	return nil
}

// background generates a response in the background. The response ends early if
// the server stops or a client cancels it.
func (d *dialect) background(w http.ResponseWriter, r *http.Request, c *Responses) error {
	ctx, cancel := context.WithCancel(d.host.Life())
	body, done, err := d.memory.Begin(c, cancel)
	if err != nil {
		cancel()
		return err
	}
	head, from := c.Head(), d.host.Client(r)
	d.Note(w, head.Notices, head.Unused)
	d.host.Go(func() {
		defer done()
		defer cancel()
		if _, err := d.host.Whole(ctx, c, from); err != nil && ctx.Err() == nil {
			d.memory.Fail(c, d.Explain(err))
		}
	})
	wire.WriteJSON(w, http.StatusOK, body)
	return nil
}

// reply sends a result of Memory, or its error.
func reply(w http.ResponseWriter, body any, err error) error {
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, body)
	return nil
}

// keptResponse answers GET /v1/responses/{id}.
func (d *dialect) keptResponse(w http.ResponseWriter, r *http.Request) error {
	if v := r.URL.Query().Get("stream"); v != "" && v != "false" {
		return wire.Bad("stream", "kept responses cannot be streamed")
	}
	body, err := d.memory.Body(r.PathValue("id"))
	return reply(w, body, err)
}

// dropResponse answers DELETE /v1/responses/{id}.
func (d *dialect) dropResponse(w http.ResponseWriter, r *http.Request) error {
	gone, err := d.memory.Delete(r.PathValue("id"))
	return reply(w, gone, err)
}

// cancelResponse answers POST /v1/responses/{id}/cancel.
func (d *dialect) cancelResponse(w http.ResponseWriter, r *http.Request) error {
	body, err := d.memory.Cancel(r.PathValue("id"))
	return reply(w, body, err)
}

// inputItems answers GET /v1/responses/{id}/input_items.
func (d *dialect) inputItems(w http.ResponseWriter, r *http.Request) error {
	limit, err := wire.Limit(r, 20, 100)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	order := q.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return wire.Bad("order", "%.64q is not one of asc, desc", order)
	}
	list, err := d.memory.Input(r.PathValue("id"), q.Get("after"), limit, order == "asc")
	return reply(w, list, err)
}

// inputTokens answers POST /v1/responses/input_tokens.
func (d *dialect) inputTokens(w http.ResponseWriter, r *http.Request) error {
	body, err := d.Body(w, r)
	if err != nil {
		return err
	}
	c, err := ParseResponses(body, d.memory)
	if err != nil {
		return err
	}
	notices, unused := c.Notes()
	d.Note(w, notices, unused)
	if c.Empty {
		wire.WriteJSON(w, http.StatusOK, TokenCount{Object: "response.input_tokens"})
		return nil
	}
	return d.Use(r, wire.Head{Model: c.Model, AsLoaded: true}, func(ctx context.Context, m *wire.Model) error {
		chat, err := c.Conversation(m)
		if err != nil {
			return err
		}
		tokens, err := m.Engine.Encode(ctx, &engine.Request{Chat: chat})
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, TokenCount{Object: "response.input_tokens", Tokens: len(tokens)})
		return nil
	})
}
