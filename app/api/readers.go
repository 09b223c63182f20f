package api

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"godwit/app/api/wire"
)

const (
	readerGrace = 500 * time.Millisecond // time before another body may take its place
	flightWait  = 5 * time.Second        // until another request has ended
)

// readers are the requests whose bodies are still coming, the oldest first.
type readers struct {
	mu   sync.Mutex
	list []*paced
}

func (l *readers) add(p *paced) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.begun, p.readers = time.Now(), l
	l.list = append(l.list, p)
}

func (l *readers) drop(p *paced) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.list, p); i >= 0 {
		l.list = slices.Delete(l.list, i, i+1)
	}
}

// oust ends the oldest body that has had its time, if there is one.
func (l *readers) oust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) > 0 && time.Since(l.list[0].begun) > readerGrace {
		l.list[0].oust()
		l.list = slices.Delete(l.list, 0, 1)
	}
}

// enter counts a request that holds a body. Where too many do, bodies that come
// slowly make room: whoever sends half a body blocks nobody.
func (s *Server) enter(r *http.Request) error {
	select {
	case s.flight <- struct{}{}:
		return nil
	default:
	}
	full := wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%d requests are waiting already", cap(s.flight))
	end := time.NewTimer(flightWait)
	defer end.Stop()
	again := time.NewTicker(readerGrace / 10)
	defer again.Stop()
	for {
		s.readers.oust()
		select {
		case s.flight <- struct{}{}:
			return nil
		case <-r.Context().Done():
			return errGone
		case <-end.C:
			return full
		case <-again.C:
			if !s.readers.any() {
				return full
			}
		}
	}
}

// any reports whether a body is still coming.
func (l *readers) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list) > 0
}
