package api

import (
	"bytes"
	"context"
	"sync"
	"time"

	"godwit/app/api/anthropic"
	"godwit/app/api/wire"
)

// batches are Anthropic's message batches, the oldest first. One request is
// answered at a time, so that conversations beside them find room.
type batches struct {
	mu      sync.Mutex
	list    []*batch
	bytes   int
	waiting int
	working bool
}

// batch is a batch with its results so far.
type batch struct {
	anthropic.Batch
	key     string // the API key that it came with; others do not see it
	expires time.Time
	whose   wire.Whose
	pending []anthropic.Batched
	results bytes.Buffer // JSON lines
	bytes   int
	cancel  context.CancelFunc // cancels the request that is being answered
}
