// Package resume stores streamed answers for a while. They continue when their
// clients disconnect, and can be read again.
package resume

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"godwit/app/api/wire"
)

// Header makes a streamed answer resumable under the name in the header. The answer
// continues when its client disconnects, and GET /v1/stream reads it again.
const Header = "X-Conversation-Id"

// Limits of resumable streams.
const (
	replayBytes = 4 << 20          // size limit of one stream; its oldest bytes are dropped first
	replayMost  = 16               // maximum number of streams, including ended ones
	replayAlone = 10 * time.Minute // how long a stream without clients continues
	maxConvID   = 256
)

// Streams holds the resumable streams of a server.
type Streams struct {
	host wire.Host
	mu   sync.Mutex
	list []*replay // oldest first
}

// New returns the resumable streams of a server.
func New(host wire.Host) *Streams { return &Streams{host: host} }

// replay is a streamed answer that clients follow. Its writer never waits for them.
type replay struct {
	id, key string // ids of the conversation and of the client's API key
	begun   time.Time
	cancel  context.CancelFunc

	mu      sync.Mutex
	header  http.Header
	begins  bool // whether the header is complete
	buf     []byte
	dropped int // number of bytes dropped before buf
	ended   bool
	err     error         // reason why the stream failed before it began
	change  chan struct{} // closed at the next change
	readers int
	alone   *time.Timer
}

func newReplay(id, key string, cancel context.CancelFunc) *replay {
	return &replay{id: id, key: key, begun: time.Now(), cancel: cancel, header: http.Header{}, change: make(chan struct{})}
}

// tell wakes all readers. The caller holds the lock.
func (p *replay) tell() {
	close(p.change)
	p.change = make(chan struct{})
}

// Header, WriteHeader, Write, Flush and SetWriteDeadline make replay an
// http.ResponseWriter for streams.
func (p *replay) Header() http.Header { return p.header }

// WriteHeader completes the header.
func (p *replay) WriteHeader(int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begins = true
	p.tell()
}

func (p *replay) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf = append(p.buf, b...)
	if over := len(p.buf) - replayBytes; over > 0 {
		p.dropped += over
		p.buf = slices.Delete(p.buf, 0, over)
	}
	p.tell()
	return len(b), nil
}

// Flush does nothing, because readers flush.
func (p *replay) Flush() {}

// SetWriteDeadline does nothing, because writing does not block.
func (p *replay) SetWriteDeadline(time.Time) error { return nil }

// end marks the stream as complete. If err is set, it marks it as failed before
// it began.
func (p *replay) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = true, err
	p.tell()
}

// read returns the bytes after an offset. If there are no bytes yet, it returns a
// channel that is closed at the next change. At the end of the stream, it
// returns neither.
func (p *replay) read(from int) (b []byte, wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.dropped + len(p.buf)
	switch {
	case p.err != nil:
		return nil, nil, p.err
	case from < p.dropped:
		return nil, nil, wire.Fault(http.StatusRequestedRangeNotSatisfiable, wire.Invalid, "byte %d of the stream is no longer stored; the stream now starts at byte %d", from, p.dropped)
	case p.begins && from < end:
		return bytes.Clone(p.buf[from-p.dropped:]), nil, nil
	case p.ended && from > end:
		return nil, nil, wire.Fault(http.StatusRequestedRangeNotSatisfiable, wire.Invalid, "the stream has only %d bytes, so it cannot be read from byte %d", end, from)
	case p.ended:
		return nil, nil, nil
	}
	return nil, p.change, nil
}

// attach counts a reader until done is called. A stream without readers ends after
// a while.
func (p *replay) attach() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers++
	if p.alone != nil {
		p.alone.Stop()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.readers--; p.readers == 0 && !p.ended {
			p.alone = time.AfterFunc(replayAlone, p.cancel)
		}
	}
}

// put adds a stream and ends an older one of the same conversation. If there are
// too many, it drops the oldest ended stream.
func (l *Streams) put(p *replay) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(p.id, p.key)
	for len(l.list) >= replayMost {
		i := slices.IndexFunc(l.list, func(o *replay) bool { o.mu.Lock(); defer o.mu.Unlock(); return o.ended })
		if i < 0 {
			return wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%d resumable streams are already running, which is the limit; send the request without the header %s", replayMost, Header)
		}
		l.list = slices.Delete(l.list, i, i+1)
	}
	l.list = append(l.list, p)
	return nil
}

// drop ends a stream and removes it. The caller holds the lock.
func (l *Streams) drop(id, key string) bool {
	i := slices.IndexFunc(l.list, func(p *replay) bool { return p.id == id && p.key == key })
	if i < 0 {
		return false
	}
	l.list[i].cancel()
	l.list = slices.Delete(l.list, i, i+1)
	return true
}

// Answer answers a call with a stream that other requests can read again.
func (l *Streams) Answer(w http.ResponseWriter, r *http.Request, id string, call wire.Call) error {
	if len(id) > maxConvID {
		return wire.Bad("", "%s has %d bytes; the limit is %d", Header, len(id), maxConvID)
	}
	ctx, cancel := context.WithCancel(context.WithValue(l.host.Life(), wire.TallyKey{}, wire.TallyOf(r.Context())))
	from := l.host.Client(r)
	p := newReplay(id, from.Key, cancel)
	if err := l.put(p); err != nil {
		cancel()
		return err
	}
	l.host.Go(func() {
		defer cancel()
		p.end(l.host.Send(ctx, p, call, from))
	})
	return follow(w, r, p, 0)
}

// follow sends a stream from an offset, until it ends or the client
// disconnects.
func follow(w http.ResponseWriter, r *http.Request, p *replay, from int) error {
	defer p.attach()()
	out := wire.NewOut(w, false)
	for {
		b, wait, err := p.read(from)
		switch {
		case err != nil && out.Begun:
			return nil // the client was so slow that its next bytes were dropped
		case err != nil:
			return err
		case wait != nil:
			select {
			case <-wait:
			case <-r.Context().Done():
				return nil
			}
			continue
		}
		if !out.Begun {
			out.Begun = true
			p.mu.Lock()
			maps.Copy(w.Header(), p.header)
			p.mu.Unlock()
			w.WriteHeader(http.StatusOK)
		}
		if len(b) == 0 {
			return nil
		}
		from += len(b)
		err = out.Raw(b)
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return nil //nolint:nilerr // the client has gone
		}
	}
}

// conversation returns the name of the stream in a request.
func conversation(r *http.Request) string {
	if id := r.PathValue("id"); id != "" {
		return id
	}
	return r.URL.Query().Get("conv_id")
}

// Routes are the endpoints of resumable streams.
func (l *Streams) Routes() []wire.Route {
	return []wire.Route{
		wire.On("GET", "/v1/stream", "Read a stream again, from a given byte. The request that started it had the header X-Conversation-Id.", l.resume, nil, nil, "conv_id", "from"),
		wire.On("DELETE", "/v1/stream", "End a stream whose request had the header X-Conversation-Id.", l.stop, nil, nil, "conv_id"),
		wire.On("GET", "/v1/stream/{id}", "Same as /v1/stream?conv_id=.", l.resume, nil, nil, "from"),
		wire.On("DELETE", "/v1/stream/{id}", "Same as /v1/stream?conv_id=.", l.stop, nil, nil),
	}
}

// resume answers GET /v1/stream.
func (l *Streams) resume(w http.ResponseWriter, r *http.Request) error {
	from, id, key := 0, conversation(r), l.host.Client(r).Key
	if text := r.URL.Query().Get("from"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return wire.Bad("from", "%.32q is not a number of bytes", text)
		}
		from = n
	}
	l.mu.Lock()
	i := slices.IndexFunc(l.list, func(p *replay) bool { return p.id == id && p.key == key })
	var p *replay
	if i >= 0 {
		p = l.list[i]
	}
	l.mu.Unlock()
	if p == nil {
		return wire.Fault(http.StatusNotFound, wire.NotFound, "there is no stream for the conversation %.64q", id)
	}
	return follow(w, r, p, from)
}

// stop answers DELETE /v1/stream.
func (l *Streams) stop(w http.ResponseWriter, r *http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(conversation(r), l.host.Client(r).Key)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
