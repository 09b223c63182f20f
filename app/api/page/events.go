package page

import (
	"net/http"
	"sync"
	"time"

	"godwit/app/api/wire"
)

const (
	// beat is the interval of heartbeats on an idle stream.
	beat = 15 * time.Second
	// patience is how long a page may take to receive a piece of a stream.
	patience = 30 * time.Second
)

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newStream(w http.ResponseWriter) (*stream, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no")
	s := &stream{w, http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	return s, s.write(": hello\n\n")
}

// send writes one event. Its name must not contain line breaks.
func (s *stream) send(name string, data any) error {
	return s.write("event: " + name + "\ndata: " + string(wire.JSON(data)) + "\n\n")
}

func (s *stream) alive() error { return s.write(": \n\n") }

func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}

// broadcaster sends events to every window. If a window has not yet received an
// event, a newer event with the same key replaces it.
type broadcaster struct {
	mu      sync.Mutex
	windows map[*window]struct{}
}

// window is the event stream of one page.
type window struct {
	mu      sync.Mutex
	order   []string // keys, oldest first
	pending map[string]event
	wake    chan struct{}
}

type event struct {
	name string
	data any
}

// latest returns the data at the time when a window receives its event. Two
// concurrent publishes may arrive in the wrong order, but the data is the newest in
// any case.
type latest func() any

func (b *broadcaster) open() *window {
	w := &window{pending: map[string]event{}, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.windows == nil {
		b.windows = map[*window]struct{}{}
	}
	b.windows[w] = struct{}{}
	return w
}

func (b *broadcaster) close(w *window) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.windows, w)
}

// empty reports whether no window is open.
func (b *broadcaster) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.windows) == 0
}

// publish sends an event to all windows. data is either of type latest or a value that
// does not change afterwards.
func (b *broadcaster) publish(name, key string, data any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.windows {
		w.put(key, event{name, data})
	}
}

func (w *window) put(key string, e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, waits := w.pending[key]; !waits {
		w.order = append(w.order, key)
	}
	w.pending[key] = e
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// drain returns the waiting events.
func (w *window) drain() []event {
	list := w.waiting()
	for i := range list {
		if now, ok := list[i].data.(latest); ok {
			list[i].data = now()
		}
	}
	return list
}

func (w *window) waiting() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]event, len(w.order))
	for i, key := range w.order {
		list[i] = w.pending[key]
	}
	clear(w.pending)
	w.order = w.order[:0]
	return list
}

// follow serves the event stream of a window.
func (p *Page) follow(w http.ResponseWriter, r *http.Request) (any, error) {
	mine := p.events.open()
	defer p.forgetLater()
	defer p.events.close(mine)
	out, err := newStream(w)
	if err == nil {
		err = out.send("models", p.list())
	}
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for err == nil {
		select {
		case <-mine.wake:
			for _, e := range mine.drain() {
				if err = out.send(e.name, e.data); err != nil {
					break
				}
			}
		case <-alive.C:
			err = out.alive()
		case <-r.Context().Done():
			return sent{}, nil
		case <-p.ctx.Done():
			return sent{}, nil
		}
	}
	return sent{}, nil // the window has disconnected
}
