package anthropic

import "godwit/app/api/wire"

// dialect answers the endpoints.
type dialect struct {
	wire.Service
	host    wire.Host
	options func() Options
	batches batches
}
