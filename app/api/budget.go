package api

import (
	"context"
	"slices"
	"sync"
)

// budget grants bytes in the order of the requests for them.
type budget struct {
	mu    sync.Mutex
	size  int64
	used  int64
	queue []*claim
}

// claim is a caller that waits for bytes of a budget.
type claim struct {
	bytes int64
	given chan struct{} // closed when the bytes are granted
}

// try takes bytes if they are free and no claim waits.
func (b *budget) try(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 || bytes > b.size-b.used {
		return false
	}
	b.used += bytes
	return true
}

// acquire waits for bytes. They must not be more than the whole budget. If it
// fails, it takes nothing, and the error is the context's cause.
func (b *budget) acquire(ctx context.Context, bytes int64) error {
	if b.try(bytes) {
		return nil
	}
	c := &claim{bytes: bytes, given: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, c)
	b.serve()
	b.mu.Unlock()
	select {
	case <-c.given:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.queue, c); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	} else { // the claim was granted in the meantime
		b.used -= bytes
	}
	b.serve() // the next claim may fit now
	return context.Cause(ctx)
}

// give returns bytes to the budget.
func (b *budget) give(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= bytes
	b.serve()
}

// serve grants the first claims in the queue, until one does not fit.
func (b *budget) serve() {
	for len(b.queue) > 0 && b.queue[0].bytes <= b.size-b.used {
		b.used += b.queue[0].bytes
		close(b.queue[0].given)
		b.queue = slices.Delete(b.queue, 0, 1)
	}
}

// state returns the number of bytes in use and of waiting claims.
func (b *budget) state() (used int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.queue)
}
