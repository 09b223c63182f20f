package anthropic

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"godwit/app/api/wire"
)

// Limits of the batches that are kept in memory.
const (
	batchLife     = 24 * time.Hour
	batchesMost   = 64
	batchBytes    = 64 << 20 // maximum size of requests and results in bytes
	batchRequests = 10000    // maximum number of unanswered requests in all batches
)

// startBatch answers POST /v1/messages/batches.
func (d *dialect) startBatch(w http.ResponseWriter, r *http.Request) error {
	body, err := d.Body(w, r)
	if err != nil {
		return err
	}
	list, err := ParseBatch(body)
	if err != nil {
		return err
	}
	now := time.Now()
	b := &batch{from: d.host.Client(r), pending: list, bytes: len(body), expires: now.Add(batchLife)}
	b.Batch = Batch{
		ID: wire.ID("msgbatch_"), Type: "message_batch", Status: "in_progress", Counts: BatchCounts{Processing: len(list)},
		Created: Timestamp(now), Expires: Timestamp(b.expires),
	}
	q := &d.batches
	q.mu.Lock()
	defer q.mu.Unlock()
	for (len(q.list) >= batchesMost || q.bytes+b.bytes > batchBytes) && q.dropEnded() {
	}
	if len(q.list) >= batchesMost || q.bytes+b.bytes > batchBytes || q.waiting+len(list) > batchRequests {
		return wire.Fault(http.StatusTooManyRequests, wire.Unavailable, "too many batches: %d with %d waiting requests and %d bytes are kept; the limits are %d, %d and %d",
			len(q.list), q.waiting, q.bytes, batchesMost, batchRequests, batchBytes)
	}
	q.list, q.bytes, q.waiting = append(q.list, b), q.bytes+b.bytes, q.waiting+len(list)
	if !q.working {
		q.working = true
		d.host.Go(d.workBatches)
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

// workBatches answers requests until the queue is empty.
func (d *dialect) workBatches() {
	for {
		b, next, ctx := d.nextBatched()
		if b == nil {
			return
		}
		answer := d.answerBatched(ctx, next, b.from)
		d.batches.note(b, next.ID, answer)
	}
}

// nextBatched takes the oldest request from the queue.
func (d *dialect) nextBatched() (*batch, Batched, context.Context) {
	q := &d.batches
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.list {
		for len(b.pending) > 0 && d.host.Life().Err() == nil {
			next := b.pending[0]
			b.pending = b.pending[1:]
			if time.Now().After(b.expires) {
				q.add(b, next.ID, BatchAnswer{Type: Expired})
				continue
			}
			ctx, cancel := context.WithCancel(d.host.Life())
			b.cancel = cancel
			return b, next, ctx
		}
	}
	q.working = false
	return nil, Batched{}, nil
}

// answerBatched answers one request.
func (d *dialect) answerBatched(ctx context.Context, q Batched, from wire.Client) BatchAnswer {
	call, err := d.parse(q.Params)
	if err == nil {
		var body any
		if body, err = d.host.Whole(ctx, call, from); err == nil {
			return BatchAnswer{Type: Succeeded, Message: body}
		}
	}
	if ctx.Err() != nil {
		return BatchAnswer{Type: Cancelled}
	}
	return BatchAnswer{Type: Errored, Error: ErrorForm(d.Explain(err))}
}

func (q *batches) note(b *batch, id string, a BatchAnswer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b.cancel()
	b.cancel = nil
	q.add(b, id, a)
}

// add appends a result. If it is the last result, add ends the batch.
func (q *batches) add(b *batch, id string, a BatchAnswer) {
	line := append(wire.JSON(BatchResult{ID: id, Result: a}), '\n')
	b.results.Write(line)
	b.bytes, q.bytes, q.waiting = b.bytes+len(line), q.bytes+len(line), q.waiting-1
	b.Counts.Count(a.Type)
	if len(b.pending) == 0 && b.Counts.Processing == 0 {
		at, url := Timestamp(time.Now()), "/v1/messages/batches/"+b.ID+"/results"
		b.Status, b.Ended, b.Results = "ended", &at, &url
	}
}

// find returns a batch of an API key. The caller holds the lock.
func (q *batches) find(id, key string) (*batch, error) {
	if i := slices.IndexFunc(q.list, func(b *batch) bool { return b.ID == id && b.from.Key == key }); i >= 0 {
		return q.list[i], nil
	}
	return nil, wire.Fault(http.StatusNotFound, wire.NotFound, "there is no batch %.128q; batches are kept until the server stops", id)
}

// withBatch calls do with a batch and sends the result.
func (d *dialect) withBatch(w http.ResponseWriter, r *http.Request, do func(b *batch) (any, error)) error {
	q := &d.batches
	q.mu.Lock()
	b, err := q.find(r.PathValue("id"), d.host.Client(r).Key)
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
func (d *dialect) oneBatch(w http.ResponseWriter, r *http.Request) error {
	return d.withBatch(w, r, func(b *batch) (any, error) { return d.located(b, r), nil })
}

// located returns the description of a batch with the URL of its results.
func (d *dialect) located(b *batch, r *http.Request) Batch {
	out := b.Batch
	if out.Results != nil {
		url := "http://" + r.Host + *out.Results
		out.Results = &url
	}
	return out
}

// cancelBatch answers POST /v1/messages/batches/{id}/cancel.
func (d *dialect) cancelBatch(w http.ResponseWriter, r *http.Request) error {
	q := &d.batches
	return d.withBatch(w, r, func(b *batch) (any, error) {
		if b.Ended != nil {
			return nil, wire.Fault(http.StatusConflict, wire.Invalid, "batch %s has already ended", b.ID)
		}
		at := Timestamp(time.Now())
		b.Status, b.Cancelled = "canceling", &at
		left := b.pending
		b.pending = nil
		for _, p := range left {
			q.add(b, p.ID, BatchAnswer{Type: Cancelled})
		}
		if b.cancel != nil {
			b.cancel()
		}
		return d.located(b, r), nil
	})
}

// dropBatch answers DELETE /v1/messages/batches/{id}.
func (d *dialect) dropBatch(w http.ResponseWriter, r *http.Request) error {
	q := &d.batches
	return d.withBatch(w, r, func(b *batch) (any, error) {
		if b.Ended == nil {
			return nil, wire.Fault(http.StatusConflict, wire.Invalid, "batch %s is in progress; cancel it first", b.ID)
		}
		q.bytes -= b.bytes
		q.list = slices.DeleteFunc(q.list, func(o *batch) bool { return o == b })
		return BatchDeleted{ID: b.ID, Type: "message_batch_deleted"}, nil
	})
}

// batchResults answers GET /v1/messages/batches/{id}/results.
func (d *dialect) batchResults(w http.ResponseWriter, r *http.Request) error {
	d.batches.mu.Lock()
	b, err := d.batches.find(r.PathValue("id"), d.host.Client(r).Key)
	var lines []byte
	switch {
	case err != nil:
	case b.Ended == nil:
		err = wire.Fault(http.StatusConflict, wire.Invalid, "batch %s has not ended", b.ID)
	default:
		lines = bytes.Clone(b.results.Bytes())
	}
	d.batches.mu.Unlock()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-jsonl")
	_, _ = w.Write(lines) // the client may have disconnected
	return nil
}

// listBatches answers GET /v1/messages/batches.
func (d *dialect) listBatches(w http.ResponseWriter, r *http.Request) error {
	limit, err := wire.Limit(r, 20, 1000)
	if err != nil {
		return err
	}
	q, key := r.URL.Query(), d.host.Client(r).Key
	d.batches.mu.Lock()
	all := []Batch{}
	for _, b := range slices.Backward(d.batches.list) {
		if b.from.Key == key {
			all = append(all, d.located(b, r))
		}
	}
	d.batches.mu.Unlock()
	wire.WriteJSON(w, http.StatusOK, Page(all, func(b *Batch) string { return b.ID }, limit, q.Get("before_id"), q.Get("after_id")))
	return nil
}
