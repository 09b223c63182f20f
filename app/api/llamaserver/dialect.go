package llamaserver

import (
	"io"

	"godwit/app/api/wire"
	"godwit/engine"
)

// Models is what the endpoints about the server itself, such as /health, need
// to access models.
type Models interface {
	// Health reports whether the model of a single-model server is loaded.
	Health() (ready bool, err error)
	// Adapters lists the LoRA adapters with their current scales.
	Adapters() ([]engine.LoRA, error)
	// SetAdapters sets the scales of adapters by path.
	SetAdapters(by map[string]float32)
}

// Parts holds what the dialect needs in addition to wire.Service.
type Parts struct {
	Models  Models
	States  *States
	Metrics func(w io.Writer) // writes the server's metrics as Prometheus text
	Version string
}

// dialect answers the endpoints.
type dialect struct {
	wire.Service
	host    wire.Host
	shelf   wire.Shelf
	models  Models
	states  *States
	metrics func(w io.Writer)
	version string
}

// asLoaded returns the head of a request that accepts the context of the loaded
// model.
func asLoaded(name string) wire.Head { return wire.Head{Model: name, AsLoaded: true} }
