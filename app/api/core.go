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
	"godwit/app/keys"
	"godwit/app/pool"
	"godwit/app/telemetry"
	"godwit/app/tune"
	"godwit/engine"
)

// Options of a server.
type Options struct {
	Settings config.Settings
	Prefixes *engine.Prefixes // store of prompt prefixes; may be nil
	Memory   *engine.Memory   // memory accounting of the models, with the budget; may be nil
	States   string           // folder for saved slots
	Version  string
	Log      *slog.Logger     // nil to log nothing
	Page     fs.FS            // files served at /; nil for no page
	Tuned    *tune.Book       // settings of single models; may be nil
	Keys     *keys.Book       // named API keys; may be nil
	Policy   *config.File     // settings that a policy locks; may be nil
	Audit    *telemetry.Audit // log of all requests; may be nil
}

// Server is the API.
type Server struct {
	o         Options
	log       *slog.Logger
	guard     *guard
	cert      *certificate // nil without TLS
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
	flight    chan struct{} // one entry per request that holds a body
	readers   readers       // requests whose bodies are still arriving
	raw       budget        // budget for the bytes of large bodies
	values    budget        // budget for the bytes of parsed bodies
	work      sync.WaitGroup
	started   time.Time
	beat      time.Duration // interval between heartbeats of a stream
	patience  wire.Patience // limits for clients that read slowly
	ending    ending
	controls  wire.Controls
	streams   *resume.Streams

	stocks // downloads that clients have started, and their listeners
}

// applied holds the settings that take effect immediately.
type applied struct {
	defaults  wire.Defaults
	log       bool // log requests
	anthropic anthropic.Options
}

// ending holds the times of a shutdown, counted from its start.
type ending struct {
	drain time.Duration // when streams that have not finished end with an error
	kill  time.Duration // when all connections are closed
	leave time.Duration // when the server stops waiting for the device's step
}

// mounted is a handler from another package.
type mounted struct {
	path    string
	keyless func(path string) bool
}
