package anthropic

import (
	"bytes"
	"context"
	"sync"
	"time"

	"godwit/app/api/wire"
)

// batches holds Anthropic's message batches, oldest first. It answers one request
// at a time, so that other conversations find free slots.
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
	from    wire.Client // its sender; clients with other API keys do not see it
	expires time.Time
	pending []Batched
	results bytes.Buffer // JSON lines
	bytes   int
	cancel  context.CancelFunc // cancels the request that is being answered
}
