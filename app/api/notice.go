package api

import (
	"sync"
)

// maxNoted limits the number of remembered notices.
const maxNoted = 256

// noted remembers the notices that were logged.
type noted struct {
	mu   sync.Mutex
	seen map[string]bool
}

// first reports whether a notice is new. Once maxNoted notices are remembered,
// no notice counts as new.
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
