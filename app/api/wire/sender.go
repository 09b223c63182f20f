package wire

import (
	"net/http"
	"time"
)

// writeTimeout is how long a client may take to receive a piece of a stream.
const writeTimeout = 30 * time.Second

// Out writes server-sent events or JSON lines. The first message also sends the
// headers.
type Out struct {
	W       http.ResponseWriter
	control *http.ResponseController
	lines   bool
	Begun   bool // whether the headers have been sent
	buf     []byte
}

// NewOut returns a stream to a client. lines selects JSON lines.
func NewOut(w http.ResponseWriter, lines bool) *Out {
	return &Out{W: w, control: http.NewResponseController(w), lines: lines}
}

func (s *Out) begin() {
	if s.Begun {
		return
	}
	s.Begun = true
	h := s.W.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	if s.lines {
		h.Set("Content-Type", "application/x-ndjson")
	}
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("X-Accel-Buffering", "no")
	s.W.WriteHeader(http.StatusOK)
}

// Send writes one message. Flush sends it.
func (s *Out) Send(name string, data any) error {
	s.buf = s.buf[:0]
	if !s.lines {
		if name != "" {
			s.buf = append(append(append(s.buf, "event: "...), name...), '\n')
		}
		s.buf = append(s.buf, "data: "...)
	}
	if text, ok := data.(Plain); ok {
		s.buf = append(s.buf, text...)
	} else {
		s.buf = append(s.buf, JSON(data)...)
	}
	s.buf = append(s.buf, '\n')
	if !s.lines {
		s.buf = append(s.buf, '\n')
	}
	return s.write()
}

// Heartbeat keeps an idle connection alive.
func (s *Out) Heartbeat() error { return s.Comment("waiting for the model") }

// Comment sends a line that clients ignore. JSON lines have no comments.
func (s *Out) Comment(text string) error {
	if s.lines {
		return nil
	}
	s.buf = append(append(append(s.buf[:0], ": "...), text...), "\n\n"...)
	if err := s.write(); err != nil {
		return err
	}
	return s.Flush()
}

func (s *Out) write() error {
	s.begin()
	return writePieces(s.W, s.control, s.buf)
}

// Flush sends what was written.
func (s *Out) Flush() error { return s.control.Flush() }

// Raw sends recorded bytes of a stream.
func (s *Out) Raw(b []byte) error {
	s.buf = append(s.buf[:0], b...)
	return s.write()
}
