package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"godwit/app/api/resume"
	"godwit/app/api/wire"
	"godwit/engine"
)

// heartbeat is the interval at which a heartbeat is sent on an idle stream.
const heartbeat = 10 * time.Second

// item is one step of an answer, sent by the goroutine that produces the
// answer.
type item struct {
	model  *wire.Model // first, once
	notice string      // difference between the request and what is done
	choice int
	event  engine.Event
	err    error
}

// answer runs a call. It returns an error only if nothing has been sent yet.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, call wire.Call) error {
	head := call.Head()
	s.note(w, head.Notices, head.Unused)
	if id := r.Header.Get(resume.Header); id != "" && head.Stream {
		return s.streams.Answer(w, r, id, call)
	}
	ctx, cancel := s.context(r)
	defer cancel()
	ctx, stall := context.WithCancelCause(ctx)
	defer stall(nil)
	items := s.begin(ctx, call, s.client(r).Whose)
	if head.Stream {
		box := wire.NewOutbox(w, s.patience, stall)
		err := s.sendStream(ctx, wire.NewOut(box, head.Lines), call, items)
		cancel() // free the slot while the client reads the rest
		box.Close()
		return err
	}
	body, err := collect(ctx, call, items, func(text string) { s.note(w, wire.Notices{text}, nil) })
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, body)
	return nil
}

// begin starts to answer a call. The work may outlast its request until the
// device's current step ends.
func (s *Server) begin(ctx context.Context, call wire.Call, whose wire.Whose) <-chan item {
	items := make(chan item, 16)
	s.work.Go(func() { s.produce(ctx, call, whose, items) })
	return items
}

// collect builds an answer that is sent whole, and calls note with each notice.
// When ctx ends, it does not wait for the device.
func collect(ctx context.Context, call wire.Call, items <-chan item, note func(text string)) (body any, err error) {
	var whole wire.Whole
	for {
		select {
		case it, open := <-items:
			switch {
			case !open && context.Cause(ctx) != nil:
				return nil, context.Cause(ctx)
			case !open:
				return whole.Body(), nil
			case it.err != nil:
				return nil, it.err
			case it.model != nil:
				whole = call.Whole(it.model)
			case it.notice != "":
				note(it.notice)
			default:
				for _, text := range broken(&it.event) {
					note(text)
				}
				whole.Add(it.choice, &it.event)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// broken describes which parts of a finished answer violate its schema.
func broken(ev *engine.Event) []string {
	var out wire.Notices
	if ev.Kind == engine.End {
		for _, text := range ev.Result.Broken {
			out.Add("%s", text)
		}
	}
	return out
}

// tell sends a notice with a stream: as a header, or as a comment if the headers
// have already been sent.
func (s *Server) tell(out *wire.Out, text string) error {
	if !out.Begun {
		s.note(out.W, wire.Notices{text}, nil)
		return nil
	}
	s.log.Info("request notice", "notice", text)
	return out.Comment(wire.NoticeHeader + ": " + text)
}

// sendStream sends the items of an answer as they come.
func (s *Server) sendStream(ctx context.Context, out *wire.Out, call wire.Call, items <-chan item) error {
	beat := time.NewTicker(s.beat)
	defer beat.Stop()
	var reply wire.Stream
	fail := func(err error) error {
		if !out.Begun {
			return err
		}
		if reply == nil { // only heartbeats were sent so far
			reply = call.Stream(&wire.Model{Name: call.Head().Model})
		}
		if err := reply.Fail(out, s.explain(err)); err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		_ = out.Flush()
		return nil
	}
	started := false
	start := func() error {
		if started {
			return nil
		}
		started = true
		return reply.Start(out)
	}
	for {
		var err error
		select {
		case it, open := <-items:
			switch {
			case !open && context.Cause(ctx) != nil:
				return fail(context.Cause(ctx))
			case !open:
				if err = reply.End(out); err == nil {
					err = out.Flush()
				}
				if err != nil {
					s.log.Debug("stream not finished", "err", err)
				}
				return nil
			case it.err != nil:
				return fail(it.err)
			case it.model != nil:
				reply = call.Stream(it.model)
			case it.notice != "":
				err = s.tell(out, it.notice)
			default:
				for _, text := range broken(&it.event) {
					err = errors.Join(err, s.tell(out, text))
				}
				if it.event.Kind != engine.Prefill && err == nil {
					err = start()
				}
				if err == nil {
					err = reply.Add(out, it.choice, &it.event)
				}
				if err == nil && out.Begun && len(items) == 0 {
					err = out.Flush()
				}
				if it.event.Kind != engine.Prefill {
					beat.Reset(s.beat)
				}
			}
		case <-ctx.Done(): // do not wait for the device
			return fail(context.Cause(ctx))
		case <-beat.C:
			err = out.Heartbeat()
		}
		if err != nil {
			s.log.Debug("client disconnected", "err", err)
			return nil
		}
	}
}

// produce generates a call's answers. It closes items when everything it started
// has ended.
func (s *Server) produce(ctx context.Context, call wire.Call, whose wire.Whose, items chan<- item) {
	defer close(items)
	send := func(it item) bool {
		select {
		case items <- it:
			return true
		case <-ctx.Done():
			return false
		}
	}
	defer s.caught(0, send)
	head := call.Head()
	l, err := s.lease(ctx, &head)
	if err != nil {
		send(item{err: err})
		return
	}
	defer l.Release()
	m := s.model(ctx, l)
	requests, err := call.Requests(m)
	for i := range requests {
		if err == nil {
			err = m.Complete(&requests[i])
		}
	}
	if err != nil {
		send(item{err: err})
		return
	}
	if !send(item{model: m}) {
		return
	}
	control, done := s.controls.Add(call)
	defer done()
	var choices sync.WaitGroup
	defer choices.Wait()
	for i := range requests {
		requests[i].OneCall, requests[i].Control = head.OneCall, control
		requests[i].Notice = func(text string) {
			var plain wire.Notices
			plain.Add("%s", text)
			send(item{notice: plain[0]})
		}
		whose.Apply(&requests[i])
		ready := make(chan struct{})
		choices.Go(func() {
			s.choice(ctx, l.Engine, i, requests[i], send, sync.OnceFunc(func() { close(ready) }))
		})
		// The next choice finds the prompt in the cache.
		<-ready
	}
}

// caught converts a panic to an error of this answer, so that other answers
// continue.
func (s *Server) caught(choice int, send func(item) bool) {
	p := recover()
	if p == nil {
		return
	}
	s.log.Error("panic in an answer", "err", p, "stack", string(debug.Stack()))
	send(item{choice: choice, err: fmt.Errorf("internal error: %v", p)})
}

// choice generates one of the answers. It calls ready once its prompt has been
// read.
func (s *Server) choice(ctx context.Context, e *engine.Engine, i int, r engine.Request, send func(item) bool, ready func()) {
	defer ready()
	defer s.caught(i, send)
	used := progress{s: s, t: wire.TallyOf(ctx)}
	defer used.close()
	for ev, err := range e.Generate(ctx, r) {
		if errors.Is(err, engine.ErrMask) {
			s.counters.refused.Inc()
		}
		if err != nil {
			send(item{choice: i, err: err})
			return
		}
		if ev.Kind != engine.Prefill {
			ready()
		}
		if err := used.see(&ev); err != nil {
			send(item{choice: i, err: err})
			return
		}
		if !send(item{choice: i, event: ev}) {
			return
		}
	}
}
