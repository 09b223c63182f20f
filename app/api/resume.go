package api

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

// ConversationHeader makes a streamed answer resumable under the name in it: it
// continues when its client goes, and GET /v1/stream reads it again.
const ConversationHeader = "X-Conversation-Id"

// Limits of resumable streams.
const (
	replayBytes = 4 << 20          // limit of one stream; the oldest bytes are dropped first
	replayMost  = 16               // streams, ended ones among them
	replayAlone = 10 * time.Minute // time that a stream continues with no client
	maxConvID   = 256
)

// replays are the resumable streams, the oldest first.
type replays struct {
	mu   sync.Mutex
	list []*replay
}

// replay is a streamed answer that clients follow. Its writer never waits for them.
type replay struct {
	id, key string // ID of the conversation, and of the client's API key
	begun   time.Time
	cancel  context.CancelFunc

	mu      sync.Mutex
	header  http.Header
	begins  bool // the header is complete
	buf     []byte
	dropped int // bytes before buf
	ended   bool
	err     error         // why nothing was sent
	change  chan struct{} // closed at the next change
	readers int
	alone   *time.Timer
}

func newReplay(id, key string, cancel context.CancelFunc) *replay {
	return &replay{id: id, key: key, begun: time.Now(), cancel: cancel, header: http.Header{}, change: make(chan struct{})}
}

// tell wakes the readers; the lock is held.
func (p *replay) tell() {
	close(p.change)
	p.change = make(chan struct{})
}

// Header, WriteHeader, Write, Flush and SetWriteDeadline make it what a stream
// writes to.
func (p *replay) Header() http.Header { return p.header }

// WriteHeader ends the header.
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

// Flush has nothing to do: readers flush.
func (p *replay) Flush() {}

// SetWriteDeadline has nothing to do: writing does not wait.
func (p *replay) SetWriteDeadline(time.Time) error { return nil }

// end says that nothing comes any more, or with an error that nothing came.
func (p *replay) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = true, err
	p.tell()
}

// read returns what there is from an offset on, and what to wait for if that is
// nothing. At the end it returns neither.
func (p *replay) read(from int) (b []byte, wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.dropped + len(p.buf)
	switch {
	case p.err != nil:
		return nil, nil, p.err
	case from < p.dropped:
		return nil, nil, wire.Fault(http.StatusRequestedRangeNotSatisfiable, wire.Invalid, "the stream now starts at byte %d; byte %d was dropped", p.dropped, from)
	case p.begins && from < end:
		return bytes.Clone(p.buf[from-p.dropped:]), nil, nil
	case p.ended && from > end:
		return nil, nil, wire.Fault(http.StatusRequestedRangeNotSatisfiable, wire.Invalid, "the stream has %d bytes; %d is beyond its end", end, from)
	case p.ended:
		return nil, nil, nil
	}
	return nil, p.change, nil
}

// attach counts a reader until done is called. A stream without readers ends
// after a time.
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

// put adds a stream in place of one of the same conversation, which ends. The
// oldest ended one makes room.
func (l *replays) put(p *replay) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(p.id, p.key)
	for len(l.list) >= replayMost {
		i := slices.IndexFunc(l.list, func(o *replay) bool { o.mu.Lock(); defer o.mu.Unlock(); return o.ended })
		if i < 0 {
			return wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%d resumable streams are running; send the request without %s", replayMost, ConversationHeader)
		}
		l.list = slices.Delete(l.list, i, i+1)
	}
	l.list = append(l.list, p)
	return nil
}

// drop ends a stream and forgets it; the lock is held.
func (l *replays) drop(id, key string) bool {
	i := slices.IndexFunc(l.list, func(p *replay) bool { return p.id == id && p.key == key })
	if i < 0 {
		return false
	}
	l.list[i].cancel()
	l.list = slices.Delete(l.list, i, i+1)
	return true
}

// resumable answers a call with a stream that other requests can read again.
func (s *Server) resumable(w http.ResponseWriter, r *http.Request, id string, call wire.Call) error {
	if len(id) > maxConvID {
		return wire.Bad("", "%s has %d bytes, at most %d", ConversationHeader, len(id), maxConvID)
	}
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx, wire.TallyKey{}, wire.TallyOf(r.Context())))
	p := newReplay(id, s.guard.keyOf(r), cancel)
	if err := s.replays.put(p); err != nil {
		cancel()
		return err
	}
	whose := s.whose(r)
	s.work.Go(func() {
		defer cancel()
		items := make(chan item, 16)
		s.work.Go(func() { s.produce(ctx, call, whose, items) })
		p.end(s.sendStream(ctx, wire.NewOut(p, call.Head().Lines), call, items))
	})
	return s.follow(w, r, p, 0)
}

// follow sends a stream from an offset on, until it ends or the client goes.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, p *replay, from int) error {
	defer p.attach()()
	out := wire.NewOut(w, false)
	for {
		b, wait, err := p.read(from)
		switch {
		case err != nil && out.Begun:
			return nil // the client was slower than the bytes were kept
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
		if err := out.Raw(b); err != nil {
			s.log.Debug("client has gone", "err", err)
			return nil
		}
		if err := out.Flush(); err != nil {
			return nil //nolint:nilerr // the client has gone
		}
	}
}

// conversation is the name of a stream in a request.
func conversation(r *http.Request) string {
	if id := r.PathValue("id"); id != "" {
		return id
	}
	return r.URL.Query().Get("conv_id")
}

// resumeRoutes are the endpoints of resumable streams.
func (s *Server) resumeRoutes() []wire.Route {
	return []wire.Route{
		wire.On("GET", "/v1/stream", "Read a stream that was begun with X-Conversation-Id again, from a byte on.", s.resume, nil, nil, "conv_id", "from"),
		wire.On("DELETE", "/v1/stream", "End such a stream.", s.stopStream, nil, nil, "conv_id"),
		wire.On("GET", "/v1/stream/{id}", "Same as /v1/stream?conv_id=.", s.resume, nil, nil, "from"),
		wire.On("DELETE", "/v1/stream/{id}", "Same as /v1/stream?conv_id=.", s.stopStream, nil, nil),
	}
}

// resume answers GET /v1/stream.
func (s *Server) resume(w http.ResponseWriter, r *http.Request) error {
	from, id, key := 0, conversation(r), s.guard.keyOf(r)
	if text := r.URL.Query().Get("from"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return wire.Bad("from", "%.32q is not a number of bytes", text)
		}
		from = n
	}
	l := &s.replays
	l.mu.Lock()
	i := slices.IndexFunc(l.list, func(p *replay) bool { return p.id == id && p.key == key })
	var p *replay
	if i >= 0 {
		p = l.list[i]
	}
	l.mu.Unlock()
	if p == nil {
		return wire.Fault(http.StatusNotFound, wire.NotFound, "no stream of the conversation %.64q is kept", id)
	}
	return s.follow(w, r, p, from)
}

// stopStream answers DELETE /v1/stream.
func (s *Server) stopStream(w http.ResponseWriter, r *http.Request) error {
	s.replays.mu.Lock()
	defer s.replays.mu.Unlock()
	s.replays.drop(conversation(r), s.guard.keyOf(r))
	w.WriteHeader(http.StatusNoContent)
	return nil
}
