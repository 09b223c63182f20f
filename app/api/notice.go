package api

import (
	"net/http"
	"sync"

	"godwit/app/api/wire"
)

// maxNoted bounds the notices that are remembered as logged.
const maxNoted = 256

// noted are the notices that were logged before.
type noted struct {
	mu   sync.Mutex
	seen map[string]bool
}

// first reports whether a notice is new. Once the memory is full none is.
func (n *noted) first(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[text] || len(n.seen) == maxNoted {
		return false
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[text] = true
	return true
}

// note tells the client and the log how a request was read. An agent repeats its
// requests, so that a notice is logged at the level Info once.
func (s *Server) note(w http.ResponseWriter, notices wire.Notices, unused []string) {
	for _, text := range notices {
		w.Header().Add(wire.NoticeHeader, text)
		if s.noted.first(text) {
			s.log.Info("request notice", "notice", text)
		} else {
			s.log.Debug("request notice", "notice", text)
		}
	}
	if len(unused) > 0 {
		s.log.Debug("fields without effect", "fields", unused)
	}
}
