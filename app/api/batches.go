package api

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"godwit/app/api/anthropic"
	"godwit/app/api/wire"
)

// Limits of the batches that are kept in memory.
const (
	batchLife     = 24 * time.Hour
	batchesMost   = 64
	batchBytes    = 64 << 20 // limit on requests and results, in bytes
	batchRequests = 10000    // limit on unanswered requests of all batches
)

// batchRoutes are the endpoints of message batches.
func (s *Server) batchRoutes() []wire.Route {
	return []wire.Route{
		wire.On("POST", "/v1/messages/batches", "Queue messages that are answered one by one.", s.startBatch, anthropic.BatchRequest{}, anthropic.Batch{}),
		wire.On("GET", "/v1/messages/batches", "List the batches, the newest first.", s.listBatches, nil, anthropic.BatchList{}, "limit", "after_id", "before_id"),
		wire.On("GET", "/v1/messages/batches/{id}", "Describe a batch.", s.oneBatch, nil, anthropic.Batch{}),
		wire.On("DELETE", "/v1/messages/batches/{id}", "Drop a batch that has ended.", s.dropBatch, nil, anthropic.BatchDeleted{}),
		wire.On("POST", "/v1/messages/batches/{id}/cancel", "End a batch; what is answered stays.", s.cancelBatch, nil, anthropic.Batch{}),
		wire.On("GET", "/v1/messages/batches/{id}/results", "The results of a batch that has ended, as JSON lines.", s.batchResults, nil, nil),
	}
}

// startBatch answers POST /v1/messages/batches.
func (s *Server) startBatch(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	list, err := anthropic.ParseBatch(body)
	if err != nil {
		return err
	}
	now := time.Now()
	b := &batch{key: s.guard.keyOf(r), whose: s.whose(r), pending: list, bytes: len(body), expires: now.Add(batchLife)}
	b.Batch = anthropic.Batch{
		ID: wire.ID("msgbatch_"), Type: "message_batch", Status: "in_progress", Counts: anthropic.BatchCounts{Processing: len(list)},
		Created: anthropic.Timestamp(now), Expires: anthropic.Timestamp(b.expires),
	}
	q := &s.batches
	q.mu.Lock()
	defer q.mu.Unlock()
	for (len(q.list) >= batchesMost || q.bytes+b.bytes > batchBytes) && q.dropEnded() {
	}
	if len(q.list) >= batchesMost || q.bytes+b.bytes > batchBytes || q.waiting+len(list) > batchRequests {
		return wire.Fault(http.StatusTooManyRequests, wire.Unavailable, "%d batches with %d requests and %d bytes are waiting; at most %d, %d and %d",
			len(q.list), q.waiting, q.bytes, batchesMost, batchRequests, batchBytes)
	}
	q.list, q.bytes, q.waiting = append(q.list, b), q.bytes+b.bytes, q.waiting+len(list)
	if !q.working {
		q.working = true
		s.work.Go(s.workBatches)
	}
	wire.WriteJSON(w, http.StatusOK, b.Batch)
	return nil
}

// dropEnded drops the oldest batch that has ended.
func (q *batches) dropEnded() bool {
	i := slices.IndexFunc(q.list, func(b *batch) bool { return b.Ended != nil })
	if i >= 0 {
		q.bytes -= q.list[i].bytes
		q.list = slices.Delete(q.list, i, i+1)
	}
	return i >= 0
}

// workBatches answers requests until none is left.
func (s *Server) workBatches() {
	for {
		b, next, ctx := s.nextBatched()
		if b == nil {
			return
		}
		answer := s.answerBatched(ctx, next, b.whose)
		s.batches.note(b, next.ID, answer)
	}
}

// nextBatched takes the oldest request out of the queue.
func (s *Server) nextBatched() (*batch, anthropic.Batched, context.Context) {
	q := &s.batches
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.list {
		for len(b.pending) > 0 && s.ctx.Err() == nil {
			next := b.pending[0]
			b.pending = b.pending[1:]
			if time.Now().After(b.expires) {
				q.add(b, next.ID, anthropic.BatchAnswer{Type: anthropic.Expired})
				continue
			}
			ctx, cancel := context.WithCancel(s.ctx)
			b.cancel = cancel
			return b, next, ctx
		}
	}
	q.working = false
	return nil, anthropic.Batched{}, nil
}

// answerBatched answers one request.
func (s *Server) answerBatched(ctx context.Context, q anthropic.Batched, whose wire.Whose) anthropic.BatchAnswer {
	call, err := s.messages(q.Params)
	if err == nil {
		items := make(chan item, 16)
		s.work.Go(func() { s.produce(ctx, call, whose, items) })
		var body any
		body, err = collect(ctx, call, items, func(text string) { s.log.Info("request notice", "notice", text) })
		if err == nil {
			return anthropic.BatchAnswer{Type: anthropic.Succeeded, Message: body}
		}
	}
	if ctx.Err() != nil {
		return anthropic.BatchAnswer{Type: anthropic.Cancelled}
	}
	return anthropic.BatchAnswer{Type: anthropic.Errored, Error: anthropic.ErrorForm(s.explain(err))}
}

func (q *batches) note(b *batch, id string, a anthropic.BatchAnswer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b.cancel()
	b.cancel = nil
	q.add(b, id, a)
}

// add writes a result, and ends a batch with its last one.
func (q *batches) add(b *batch, id string, a anthropic.BatchAnswer) {
	line := append(wire.JSON(anthropic.BatchResult{ID: id, Result: a}), '\n')
	b.results.Write(line)
	b.bytes, q.bytes, q.waiting = b.bytes+len(line), q.bytes+len(line), q.waiting-1
	b.Counts.Count(a.Type)
	if len(b.pending) == 0 && b.Counts.Processing == 0 {
		at, url := anthropic.Timestamp(time.Now()), "/v1/messages/batches/"+b.ID+"/results"
		b.Status, b.Ended, b.Results = "ended", &at, &url
	}
}

// find returns a batch of an API key; the lock is held.
func (q *batches) find(id, key string) (*batch, error) {
	if i := slices.IndexFunc(q.list, func(b *batch) bool { return b.ID == id && b.key == key }); i >= 0 {
		return q.list[i], nil
	}
	return nil, wire.Fault(http.StatusNotFound, wire.NotFound, "no batch %.128q; batches are kept until the server ends", id)
}

// withBatch answers with what do makes of a batch.
func (s *Server) withBatch(w http.ResponseWriter, r *http.Request, do func(b *batch) (any, error)) error {
	q := &s.batches
	q.mu.Lock()
	b, err := q.find(r.PathValue("id"), s.guard.keyOf(r))
	var body any
	if err == nil {
		body, err = do(b)
	}
	q.mu.Unlock()
	if err == nil {
		wire.WriteJSON(w, http.StatusOK, body)
	}
	return err
}

// oneBatch answers GET /v1/messages/batches/{id}.
func (s *Server) oneBatch(w http.ResponseWriter, r *http.Request) error {
	return s.withBatch(w, r, func(b *batch) (any, error) { return s.located(b, r), nil })
}

// located is the description of a batch with the address of its results.
func (s *Server) located(b *batch, r *http.Request) anthropic.Batch {
	out := b.Batch
	if out.Results != nil {
		url := "http://" + r.Host + *out.Results
		out.Results = &url
	}
	return out
}

// cancelBatch answers POST /v1/messages/batches/{id}/cancel.
func (s *Server) cancelBatch(w http.ResponseWriter, r *http.Request) error {
	q := &s.batches
	return s.withBatch(w, r, func(b *batch) (any, error) {
		if b.Ended != nil {
			return nil, wire.Fault(http.StatusConflict, wire.Invalid, "batch %s has ended", b.ID)
		}
		at := anthropic.Timestamp(time.Now())
		b.Status, b.Cancelled = "canceling", &at
		left := b.pending
		b.pending = nil
		for _, p := range left {
			q.add(b, p.ID, anthropic.BatchAnswer{Type: anthropic.Cancelled})
		}
		if b.cancel != nil {
			b.cancel()
		}
		return s.located(b, r), nil
	})
}

// dropBatch answers DELETE /v1/messages/batches/{id}.
func (s *Server) dropBatch(w http.ResponseWriter, r *http.Request) error {
	q := &s.batches
	return s.withBatch(w, r, func(b *batch) (any, error) {
		if b.Ended == nil {
			return nil, wire.Fault(http.StatusConflict, wire.Invalid, "batch %s is in progress; cancel it first", b.ID)
		}
		q.bytes -= b.bytes
		q.list = slices.DeleteFunc(q.list, func(o *batch) bool { return o == b })
		return anthropic.BatchDeleted{ID: b.ID, Type: "message_batch_deleted"}, nil
	})
}

// batchResults answers GET /v1/messages/batches/{id}/results.
func (s *Server) batchResults(w http.ResponseWriter, r *http.Request) error {
	s.batches.mu.Lock()
	b, err := s.batches.find(r.PathValue("id"), s.guard.keyOf(r))
	var lines []byte
	switch {
	case err != nil:
	case b.Ended == nil:
		err = wire.Fault(http.StatusConflict, wire.Invalid, "batch %s has not ended", b.ID)
	default:
		lines = bytes.Clone(b.results.Bytes())
	}
	s.batches.mu.Unlock()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-jsonl")
	_, _ = w.Write(lines) // the client may be gone
	return nil
}

// listBatches answers GET /v1/messages/batches.
func (s *Server) listBatches(w http.ResponseWriter, r *http.Request) error {
	limit, err := wire.Limit(r, 20, 1000)
	if err != nil {
		return err
	}
	q, key := r.URL.Query(), s.guard.keyOf(r)
	s.batches.mu.Lock()
	all := []anthropic.Batch{}
	for _, b := range slices.Backward(s.batches.list) {
		if b.key == key {
			all = append(all, s.located(b, r))
		}
	}
	s.batches.mu.Unlock()
	wire.WriteJSON(w, http.StatusOK, anthropic.Page(all, func(b *anthropic.Batch) string { return b.ID }, limit, q.Get("before_id"), q.Get("after_id")))
	return nil
}
