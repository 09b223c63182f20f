package wire

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// Patience limits how much of a stream waits for its client, and for how long.
type Patience struct {
	Bytes int           // maximum number of bytes that wait for the client
	Stall time.Duration // how long the client may read nothing before the answer ends, while that many bytes wait
}

// DefaultPatience is the patience of every server.
func DefaultPatience() Patience { return Patience{256 << 10, 10 * time.Second} }

// SendBuffer is the size of a connection's send buffer. The kernel's default
// grows to megabytes, so a client that does not read would only be noticed once
// they are full.
const SendBuffer = 128 << 10

// Outbox sends a stream as fast as its client reads, while the answer is generated
// at its own speed. It is an http.ResponseWriter for one writer.
type Outbox struct {
	w     http.ResponseWriter
	limit Patience
	stop  func(error) // ends the answer

	mu      sync.Mutex
	buf     []byte
	flush   bool
	ended   bool // whether writing has ended
	stalled bool // whether the client has stalled, so that writes no longer wait for it
	err     error
	begun   bool
	fill    chan struct{} // wakes the sender; its capacity is 1
	taken   chan struct{} // closed and replaced when the client has received bytes
	done    chan struct{} // closed when the sender has returned
}

// NewOutbox returns an outbox for a client. If the client stalls, stop is called
// with the reason. Text that is written afterwards is still sent.
func NewOutbox(w http.ResponseWriter, limit Patience, stop func(error)) *Outbox {
	return &Outbox{w: w, limit: limit, stop: stop, fill: make(chan struct{}, 1), taken: make(chan struct{}), done: make(chan struct{})}
}

// Header returns the header of the response.
func (o *Outbox) Header() http.Header { return o.w.Header() }

// WriteHeader starts the response.
func (o *Outbox) WriteHeader(status int) { o.w.WriteHeader(status) }

// SetWriteDeadline does nothing, because the sender sets the deadlines.
func (o *Outbox) SetWriteDeadline(time.Time) error { return nil }

// Flush makes the sender flush the bytes written so far.
func (o *Outbox) Flush() {
	o.mu.Lock()
	o.flush = true
	o.mu.Unlock()
	o.wake()
}

func (o *Outbox) wake() {
	select {
	case o.fill <- struct{}{}:
	default:
	}
}

// Write adds bytes. It waits while the outbox is full and the client still reads.
func (o *Outbox) Write(b []byte) (int, error) {
	o.mu.Lock()
	for o.err == nil && !o.stalled && len(o.buf) > 0 && len(o.buf)+len(b) > o.limit.Bytes {
		taken := o.taken
		o.mu.Unlock()
		timer := time.NewTimer(o.limit.Stall)
		select {
		case <-taken:
			timer.Stop()
			o.mu.Lock()
		case <-timer.C:
			o.stop(Fault(http.StatusRequestTimeout, Invalid, "the answer ended because the client read nothing for %v", o.limit.Stall))
			o.mu.Lock()
			o.stalled = true
		}
	}
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	if !o.begun {
		o.begun = true
		go o.send()
	}
	o.buf = append(o.buf, b...)
	o.wake()
	return len(b), nil
}

// Close waits until the client has received everything or has disconnected.
func (o *Outbox) Close() {
	o.mu.Lock()
	o.ended = true
	begun := o.begun
	o.mu.Unlock()
	if o.wake(); begun {
		<-o.done
	}
}

// send writes to the client until everything is sent or an error ends it.
func (o *Outbox) send() {
	defer close(o.done)
	control := http.NewResponseController(o.w)
	var piece [pieceBytes]byte
	for {
		o.mu.Lock()
		n := copy(piece[:], o.buf)
		o.buf = o.buf[:copy(o.buf, o.buf[n:])]
		flush, ended := o.flush && len(o.buf) == 0, o.ended && len(o.buf) == 0
		if flush {
			o.flush = false
		}
		o.mu.Unlock()
		err := writePieces(o.w, control, piece[:n])
		if err == nil && flush {
			err = control.Flush()
		}
		if n > 0 || err != nil {
			o.mu.Lock()
			o.err = err
			close(o.taken)
			o.taken = make(chan struct{})
			o.mu.Unlock()
		}
		switch {
		case err != nil, ended:
			return
		case n == 0:
			<-o.fill
		}
	}
}

// pieceBytes is the size of one write. Each write has writeTimeout, so that slow
// clients also receive long texts.
const pieceBytes = 16 << 10

// writePieces writes to a client that may be slow. A writer without deadlines has
// no limit.
func writePieces(w http.ResponseWriter, control *http.ResponseController, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
