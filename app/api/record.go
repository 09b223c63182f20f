package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"godwit/app/api/wire"
	"godwit/app/keys"
)

// recorder records what the metrics and the logs contain about a request, and the wire
// type of its body.
type recorder struct {
	http.ResponseWriter
	start   time.Time
	status  int
	path    string // pattern of the endpoint, or the path of another handler; empty: none
	route   bool   // an endpoint has answered
	grant   *keys.Grant
	request any
	tally   wire.Tally
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// knownMethods are the methods that logs contain. Others are text of the client.
var knownMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// record writes the lines of the request log and the audit log. The request log has
// requests to endpoints. The audit log also has rejected ones and those of the page,
// but not the files of the page.
func (s *Server) record(rec *recorder, r *http.Request) {
	log := rec.route && s.live.Load().log
	if rec.path == "" && rec.status < http.StatusBadRequest || !log && s.o.Audit == nil {
		return
	}
	method := r.Method
	if !slices.Contains(knownMethods, method) {
		method = "other"
	}
	if rec.path == "" { // rejected before it reached an endpoint
		_, rec.path = s.mux.Handler(r)
	}
	if rec.path == "" || rec.path == "/" {
		rec.path = "other" // the path itself is text of the client
	}
	line := append([]any{"method", method, "path", rec.path, "status", rec.status, "ms", time.Since(rec.start).Milliseconds()}, append(rec.tally.Attrs(), keyAttr(rec.grant)...)...)
	if log {
		s.log.Info("request", line...)
	}
	s.o.Audit.Write(line...)
}

// keyAttr returns the attribute of a named key for the logs.
func keyAttr(g *keys.Grant) []any {
	if g == nil {
		return nil
	}
	return []any{"key", g.Name()}
}

// granted returns a context for work that outlives its request. It ends when the key
// is revoked, and its tokens count for the key. The caller calls done with the result,
// which writes a line to the audit log.
func (s *Server) granted(ctx context.Context, g *keys.Grant) (_ context.Context, done func(error)) {
	start := time.Now()
	ctx, stop := g.While(ctx)
	tally, shared := ctx.Value(wire.TallyKey{}).(*wire.Tally)
	if !shared {
		tally = &wire.Tally{Limit: limit(g)}
		ctx = context.WithValue(ctx, wire.TallyKey{}, tally)
	}
	return ctx, func(err error) {
		stop()
		if shared && !tally.Logged() {
			return // the line of the request will have its tokens
		}
		status := http.StatusOK
		if err != nil {
			status = s.explain(err).Status
		}
		s.o.Audit.Write(append([]any{"path", "background", "status", status, "ms", time.Since(start).Milliseconds()}, append(tally.Attrs(), keyAttr(g)...)...)...)
	}
}
