package anthropic

import (
	"bytes"
	"context"
	"sync"
	"time"

	"godwit/app/api/wire"
)

// batches holds Anthropic's message batches, oldest first. It answers one
// request at a time, so that slots remain free for other conversations.
type batches struct {
	mu      sync.Mutex
	list    []*batch
	bytes   int
	waiting int
	working bool
}

// batch is a batch with its results so far.
type batch struct {
	Batch
	from    wire.Client // sender; clients with other API keys cannot see the batch
	expires time.Time
	pending []Batched
	results bytes.Buffer // JSON lines
	bytes   int
	cancel  context.CancelFunc // cancels the request that is currently answered
}
