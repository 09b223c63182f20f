package api

import (
	"net/http"
	"time"

	"godwit/app/api/wire"
)

// writeTimeout is how long a client may take to take in a piece of a stream.
const writeTimeout = 30 * time.Second

// stream writes server-sent events or JSON lines. Headers go out with the
// first message.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	lines   bool
	begun   bool
	buf     []byte
}

func newStream(w http.ResponseWriter, lines bool) *stream {
	return &stream{w: w, control: http.NewResponseController(w), lines: lines}
}

func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	if s.lines {
		h.Set("Content-Type", "application/x-ndjson")
	}
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
}

// Send writes one message; flush sends it off.
func (s *stream) Send(name string, data any) error {
	s.buf = s.buf[:0]
	if !s.lines {
		if name != "" {
			s.buf = append(append(append(s.buf, "event: "...), name...), '\n')
		}
		s.buf = append(s.buf, "data: "...)
	}
	if text, ok := data.(wire.Plain); ok {
		s.buf = append(s.buf, text...)
	} else {
		s.buf = append(s.buf, wire.JSON(data)...)
	}
	s.buf = append(s.buf, '\n')
	if !s.lines {
		s.buf = append(s.buf, '\n')
	}
	return s.write()
}

// heartbeat keeps the connection alive where nothing else is to be said.
func (s *stream) heartbeat() error { return s.comment("waiting for the model") }

// comment sends a line that clients pass over. JSON lines have none.
func (s *stream) comment(text string) error {
	if s.lines {
		return nil
	}
	s.buf = append(append(append(s.buf[:0], ": "...), text...), "\n\n"...)
	if err := s.write(); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) write() error {
	s.begin()
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := s.w.Write(s.buf)
	return err
}

func (s *stream) flush() error { return s.control.Flush() }

// writeJSON sends a whole answer.
func writeJSON(w http.ResponseWriter, status int, body any) { wire.WriteJSON(w, status, body) }
