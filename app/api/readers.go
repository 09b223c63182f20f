package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	readerGrace = 500 * time.Millisecond // minimum time before a body can be cancelled for another one
	flightWait  = 5 * time.Second        // maximum wait for another request to end
)

// readers lists the requests whose bodies are still arriving, oldest first.
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

// oust cancels the oldest body whose grace period has ended, if there is one.
func (l *readers) oust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) > 0 && time.Since(l.list[0].begun) > readerGrace {
		l.list[0].oust()
		l.list = slices.Delete(l.list, 0, 1)
	}
}

// any reports whether any body is still arriving.
func (l *readers) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list) > 0
}

// paced sets a deadline for every read of a body, and for the remaining body once
// its request has been answered.
type paced struct {
	io.ReadCloser
	control *http.ResponseController
	pause   time.Duration
	end     time.Time // deadline of the whole body; zero without one
	begun   time.Time // start of the body's request
	readers *readers  // list that contains this body until it ends; nil without one

	mu     sync.Mutex
	ousted bool // whether the body was cancelled to make room for another request
}

// oust cancels the body.
func (p *paced) oust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ousted = true
	_ = p.control.SetReadDeadline(time.Now()) // cannot fail, because a deadline was set before
}

func (p *paced) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ousted {
		return os.ErrDeadlineExceeded
	}
	next := time.Now().Add(p.pause)
	if !p.end.IsZero() && next.After(p.end) {
		next = p.end
	}
	return p.control.SetReadDeadline(next)
}

func (p *paced) Read(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	n, err := p.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) { // from now on, the server detects if the client disconnects
		if p.readers != nil {
			p.readers.drop(p)
		}
		if err := p.control.SetReadDeadline(time.Time{}); err != nil {
			return n, err
		}
	}
	return n, err
}
