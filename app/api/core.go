package api

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"godwit/app/api/anthropic"
	"godwit/app/api/llamaserver"
	"godwit/app/api/openai"
	"godwit/app/api/resume"
	"godwit/app/api/wire"
	"godwit/app/config"
	"godwit/app/pool"
	"godwit/app/telemetry"
	"godwit/engine"
)

// Options of a server.
type Options struct {
	Settings config.Settings
	Prefixes *engine.Prefixes // what models have read; may be nil
	Memory   *engine.Memory   // memory of the models, with its budget; may be nil
	States   string           // folder of saved slots
	Version  string
	Log      *slog.Logger // nil: none
	Page     fs.FS        // served at /; nil: no page
}

// Server is the API.
type Server struct {
	o         Options
	log       *slog.Logger
	guard     *guard
	pool      *pool.Pool
	states    *llamaserver.States
	live      atomic.Pointer[applied]
	noted     noted
	memory    openai.Memory
	metrics   *telemetry.Metrics
	counters  counters
	endpoints *endpoints
	mux       *http.ServeMux
	mounted   []mounted
	ctx       context.Context
	stop      context.CancelFunc
	flight    chan struct{} // one entry for each request that holds a body
	readers   readers       // requests whose bodies are still arriving
	raw       budget        // budget for bytes of large bodies
	values    budget        // budget for bytes of bodies read into values
	work      sync.WaitGroup
	started   time.Time
	beat      time.Duration // between the heartbeats of a stream
	patience  wire.Patience // with clients that read slowly
	ending    ending
	controls  wire.Controls
	streams   *resume.Streams

	stocks // what clients have set and begun
}

// applied are the settings that take effect at once.
type applied struct {
	defaults  wire.Defaults
	log       bool // log requests
	anthropic anthropic.Options
}

// ending is the times of a shutdown.
type ending struct {
	drain time.Duration // end of the time for streams to finish; later ones end with an error
	kill  time.Duration // all connections are closed
	leave time.Duration // the server stops waiting for the device to finish a step
}

// mounted is a handler of another package.
type mounted struct {
	path    string
	keyless func(path string) bool
}
