package engine

import (
	"bytes"
	"fmt"
	"sync"
)

// queue carries events from the scheduler's goroutine to the reader. It never blocks
// the writer, because a slow reader must not hold up the device. Its size needs no
// limit, because the context limits the length of an answer.
type queue struct {
	mu     sync.Mutex
	events []Event
	closed bool
	ready  chan struct{} // holds a value while events wait
}

func (q *queue) init() { q.ready = make(chan struct{}, 1) }

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *queue) push(ev Event) {
	q.mu.Lock()
	q.events = append(q.events, ev)
	q.mu.Unlock()
	q.signal()
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// receive waits for events and reports whether they are the last.
func (q *queue) receive() ([]Event, bool) {
	<-q.ready
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events = nil
	return events, q.closed
}

// splitter divides the text of an answer into content, reasoning and calls.
type splitter interface {
	push(text string) []Event
	finish() []Event
	called() bool   // whether a whole tool call was seen
	thinking() bool // whether the next text is reasoning
	held() int      // bytes held back until a tag or call is complete
}

// plain is the splitter of requests without messages.
type plain struct{}

func (plain) push(text string) []Event { return []Event{{Kind: Text, Text: text}} }
func (plain) finish() []Event          { return nil }
func (plain) called() bool             { return false }
func (plain) thinking() bool           { return false }
func (plain) held() int                { return 0 }

// stopper looks for stop strings in a stream and holds back what may become one.
type stopper struct {
	stops [][]byte
	held  []byte
	hit   string
}

func newStopper(stops []string) (stopper, error) {
	var s stopper
	if len(stops) > maxStops {
		return s, fmt.Errorf("%w: %d stop strings are too many; the limit is %d", ErrRequest, len(stops), maxStops)
	}
	for _, t := range stops {
		if len(t) > maxStop {
			return s, fmt.Errorf("%w: a stop string of %d bytes is too long; the limit is %d", ErrRequest, len(t), maxStop)
		}
		if t != "" {
			s.stops = append(s.stops, []byte(t))
		}
	}
	return s, nil
}

// push adds text and returns what can be sent: everything before a stop string, or
// everything except a tail that may begin one. The result is valid until the next call.
func (s *stopper) push(text []byte) []byte {
	if s.hit != "" {
		return nil
	}
	if len(s.stops) == 0 {
		return text
	}
	s.held = append(s.held, text...)
	first := -1
	for _, t := range s.stops {
		if i := bytes.Index(s.held, t); i >= 0 && (first < 0 || i < first) {
			first, s.hit = i, string(t)
		}
	}
	if first >= 0 {
		return s.held[:first]
	}
	keep := 0
	for _, t := range s.stops {
		for n := min(len(t)-1, len(s.held)); n > keep; n-- {
			if bytes.HasSuffix(s.held, t[:n]) {
				keep = n
				break
			}
		}
	}
	out := bytes.Clone(s.held[:len(s.held)-keep])
	s.held = append(s.held[:0], s.held[len(s.held)-keep:]...)
	return out
}

// flush returns what was held back.
func (s *stopper) flush() []byte {
	out := s.held
	s.held = nil
	return out
}
