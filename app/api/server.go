// Package api serves models on localhost in the dialects of common tools: OpenAI,
// Anthropic, Ollama, llama-server and LM Studio. It also serves the state of the
// cache.
//
//	s, err := api.New(models, api.Options{Settings: settings})
//	l, err := s.Listen()
//	err = s.Serve(ctx, l, models.Close)   // until ctx ends; open streams end within seconds
//
// Each dialect is a package below, with its routes, its handlers and its form
// of errors. It reads bodies into wire types, translates them to
// engine.Request, and writes engine.Event in its own form. The server itself
// has the guard, the limits, the metrics, and the endpoints about its memory
// and cache.
package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"godwit/app/api/anthropic"
	"godwit/app/api/llamaserver"
	"godwit/app/api/resume"
	"godwit/app/api/wire"
	"godwit/app/config"
	"godwit/app/pool"
	"godwit/app/telemetry"
	"godwit/engine"
)

// ErrExposed is returned when the server would listen beyond loopback without an
// API key.
var ErrExposed = errors.New("listening on an address other than loopback requires an API key")

// New returns a server for a pool's models. The caller closes the pool after the
// server.
func New(p *pool.Pool, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	set := &o.Settings.Server
	host := set.Host
	if set.UnixSocket != "" {
		host = "localhost" // only this machine's users can connect
	}
	s := &Server{
		o: o, log: o.Log, pool: p, guard: newGuard(host, set.AllowedHost, set.AllowedOrigin, set.APIKey),
		metrics: telemetry.NewMetrics(), flight: make(chan struct{}, maxInFlight), raw: budget{size: rawBytes}, values: budget{size: valueBytes}, started: time.Now(), beat: heartbeat, patience: wire.DefaultPatience(), ending: endings(),
	}
	s.guard.named = o.Keys
	if s.guard.remote && !s.guard.keyed() {
		return nil, fmt.Errorf("%w: --host %s; make one with 'godwit key add', or set one with --api-key or GODWIT_API_KEY", ErrExposed, set.Host)
	}
	var err error
	if s.cert, err = newCertificate(set, s.log); err != nil {
		return nil, err
	}
	if s.states, err = llamaserver.NewStates(o.States, int64(set.StateBudget)); err != nil {
		return nil, err
	}
	if err := s.Apply(&o.Settings); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.counters.init(s.metrics)
	s.streams = resume.New(service{s})
	s.endpoints = newEndpoints(s.dialects())
	s.mux = s.routes()
	p.Watch(pool.Watcher{Changed: s.changes.tell, Step: s.counters.observe})
	return s, nil
}

// Apply applies the settings that need neither a load nor a restart: sampling,
// keep-alive, the size limit of saved slots, and the request log.
func (s *Server) Apply(set *config.Settings) error {
	d, err := defaults(set)
	if err != nil {
		return err
	}
	s.live.Store(&applied{d, set.Server.RequestLog, anthropic.Options{KeepHeaders: set.Server.KeepClientHeaders}})
	s.pool.KeepAlive(time.Duration(set.Server.KeepAlive))
	s.states.Budget(int64(set.Server.StateBudget))
	return nil
}

// defaults returns the defaults for parameters that a request leaves out.
func defaults(set *config.Settings) (wire.Defaults, error) {
	d := wire.Defaults{Sampling: engine.SamplingDefaults(), MaxTokens: max(set.Sampling.Predict, 0)}
	if set.Server.AllowImageURLs {
		d.Fetch = fetchImage
	}
	p := &d.Sampling
	c := &set.Sampling
	p.Temperature, p.TopK, p.TopP, p.MinP = c.Temperature, c.TopK, c.TopP, c.MinP
	if c.Seed != nil {
		p.Seed = *c.Seed
	}
	if kwargs := set.Server.ChatTemplateKwargs; kwargs != "" {
		d.Kwargs = []byte(kwargs)
		if _, err := wire.Kwargs(d.Kwargs); err != nil {
			return d, fmt.Errorf("--chat-template-kwargs: %w", err)
		}
	}
	if n := set.Server.ReasoningBudget; n >= 0 || set.Server.ReasoningMessage != "" {
		d.Budget = &engine.Budget{Tokens: n, Message: set.Server.ReasoningMessage}
	}
	switch set.Server.Reasoning {
	case "on", "off":
		on := set.Server.Reasoning == "on"
		d.Thinking = &on
	}
	return d, nil
}

// endings returns the times of a shutdown.
func endings() ending {
	return ending{drain: 700 * time.Millisecond, kill: 2 * time.Second, leave: 2900 * time.Millisecond}
}

// Serve serves requests until ctx ends. Then it ends all requests and calls
// last, which closes everything that they used. This takes at most three
// seconds. Serve closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener, last func() error) error {
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), ConnContext: smallBuffer,
	}
	if s.cert != nil {
		srv.TLSConfig = s.cert.config()
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // no HTTP/2
		l = tls.NewListener(l, srv.TLSConfig)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		s.Close()
		return errors.Join(err, last())
	case <-ctx.Done():
	}
	leave := time.NewTimer(s.ending.leave)
	defer leave.Stop()
	end, cancel := context.WithTimeout(context.Background(), s.ending.kill)
	defer cancel()
	timer := time.AfterFunc(s.ending.drain, s.stop)
	defer timer.Stop()
	err := srv.Shutdown(end)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-ended
	closed := make(chan error, 1)
	go func() { s.Close(); closed <- last() }()
	select {
	case e := <-closed:
		return errors.Join(err, e)
	case <-leave.C:
		s.log.Warn("stopped during a step of the device")
		return err
	}
}

// smallBuffer limits how much the kernel buffers for a client that does not read.
func smallBuffer(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok { // a TCP connection or a Unix socket
		_ = t.SetWriteBuffer(wire.SendBuffer) // if this fails, streams only notice slow clients later
	}
	return ctx
}

// Close ends all requests. Serve also does this.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
}

// Mount adds a handler for a path and everything below it, after the server's own
// checks of clients. keyless reports whether a path needs no API key. If it is nil,
// all paths need one.
func (s *Server) Mount(path string, h http.Handler, keyless func(path string) bool) {
	s.mux.Handle(path, h)
	s.mounted = append(s.mounted, mounted{path, keyless})
}

// ServeHTTP checks the client and routes the request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.work.Add(1)
	defer s.work.Done()
	rec := &recorder{ResponseWriter: w, status: http.StatusOK, start: time.Now()}
	defer s.record(rec, r)
	s.serve(rec, r)
}

// serve answers a request.
func (s *Server) serve(w *recorder, r *http.Request) {
	form := s.endpoints.form(r.URL.Path)
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if err := s.guard.pace(w, r); err != nil {
		s.fail(w, form, err)
		return
	}
	if err := s.guard.check(r); err != nil {
		s.fail(w, form, err)
		return
	}
	if s.guard.cross(w, r) {
		return
	}
	at := s.mountedAt(r.URL.Path)
	w.path = at
	if !s.keyless(r.URL.Path) {
		grant, err := s.guard.authorise(r)
		w.grant = grant
		if err == nil && at != "" {
			err = permit(grant, "open the page")
		}
		if err != nil {
			s.fail(w, form, err)
			return
		}
		ctx, stop := grant.While(r.Context())
		defer stop()
		r = r.WithContext(ctx)
	}
	s.mux.ServeHTTP(w, r)
}
