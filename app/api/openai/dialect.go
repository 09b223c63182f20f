package openai

import "godwit/app/api/wire"

// Parts holds what the dialect needs in addition to wire.Service.
type Parts struct {
	Memory   *Memory
	Controls *wire.Controls
	// Other answers the model endpoints in the form of another dialect.
	Other Listed
}

// dialect answers the endpoints that generate text.
type dialect struct {
	wire.Service
	host     wire.Host
	memory   *Memory
	controls *wire.Controls
}
