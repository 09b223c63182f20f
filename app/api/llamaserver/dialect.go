package llamaserver

import (
	"io"

	"godwit/app/api/wire"
	"godwit/engine"
)

// Models is what the endpoints about the server itself, such as /health, need of its
// models.
type Models interface {
	// Health reports whether the model of a single-model server is loaded.
	Health() (ready bool, err error)
	// Adapters lists the LoRA adapters with their current scales.
	Adapters() ([]engine.LoRA, error)
	// SetAdapters sets scales by path.
	SetAdapters(by map[string]float32)
}

// Parts are what the dialect needs in addition to a server's services.
type Parts struct {
	Models  Models
	States  *States
	Metrics func(w io.Writer) // writes the server's metrics in the text form of Prometheus
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

// asLoaded is a request for a model with its loaded context.
func asLoaded(name string) wire.Head { return wire.Head{Model: name, AsLoaded: true} }
