package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"godwit/app/api/wire"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/keys"
	"godwit/app/pool"
	"godwit/engine"
)

// hubStatus maps errors of the library to HTTP statuses.
var hubStatus = []struct {
	err    error
	status int
	kind   string
}{
	{hub.ErrNotFound, http.StatusNotFound, wire.NotFound},
	{hub.ErrName, http.StatusBadRequest, wire.Invalid},
	{hub.ErrTaken, http.StatusConflict, wire.Invalid},
	{hub.ErrFile, http.StatusBadRequest, wire.Invalid},
	{hub.ErrDigest, http.StatusBadRequest, wire.Invalid},
	{hub.ErrSize, http.StatusRequestEntityTooLarge, wire.Invalid},
	{hub.ErrBusy, http.StatusConflict, wire.Invalid},
	{hub.ErrOff, http.StatusForbidden, wire.Forbidden},
	{hub.ErrBlocked, http.StatusForbidden, wire.Forbidden},
	{hub.ErrAuth, http.StatusBadGateway, wire.Forbidden},
	{hub.ErrLimited, http.StatusTooManyRequests, wire.Unavailable},
	{hub.ErrServer, http.StatusBadGateway, wire.Unavailable},
	{hub.ErrNetwork, http.StatusBadGateway, wire.Unavailable},
	{hub.ErrSpace, http.StatusInsufficientStorage, wire.Internal},
}

func hubFault(err error) error {
	for _, h := range hubStatus {
		if errors.Is(err, h.err) {
			return wire.Fault(h.status, h.kind, "%v", err)
		}
	}
	return err
}

// inUse converts errors about a model that cannot be unloaded to messages for
// clients. It returns other errors unchanged.
func inUse(err error, name string) error {
	if errors.Is(err, pool.ErrBusy) || errors.Is(err, pool.ErrFixed) {
		return wire.Fault(http.StatusConflict, wire.Invalid, "model %s is in use or being loaded", name)
	}
	return err
}

// errNoLibrary rejects downloads on a server with a single model file.
var errNoLibrary = wire.Fault(http.StatusNotImplemented, wire.Unsupported, "this server serves one model and has no library")

// explain converts any error to the message for the client.
func (s *Server) explain(err error) *wire.Error {
	var e *wire.Error
	var missing *pool.MissingError
	var unnamed *pool.UnnamedError
	var load *pool.LoadError
	var long *engine.TooLong
	var wrong *engine.InputError
	var over *keys.LimitError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &missing):
		e := wire.Fault(http.StatusNotFound, wire.NotFound, "%v", missing)
		e.Code, e.Param = "model_not_found", "model"
		return e
	case errors.As(err, &unnamed):
		return wire.Bad("model", "%v", unnamed)
	case errors.Is(err, pool.ErrStopping):
		return errStopping
	case errors.As(err, &over):
		e := wire.Fault(http.StatusTooManyRequests, wire.Limited, "%v", over)
		e.Code, e.Retry = "rate_limit_exceeded", over.Retry
		return e
	case errors.Is(err, config.ErrLocked):
		return locked(err)
	case errors.Is(err, keys.ErrRevoked):
		e := wire.Fault(http.StatusUnauthorized, wire.Unauthorized, "%v", err)
		e.Code = "invalid_api_key"
		return e
	case errors.As(err, &load) && load.Held:
		e := wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%v; models in use occupy the memory", load)
		e.Code = "insufficient_memory"
		return e
	case errors.As(err, &load):
		return wire.Fault(http.StatusInternalServerError, wire.Internal, "%v", load)
	case errors.As(err, &long):
		return &wire.Error{
			Status: http.StatusBadRequest, Type: wire.Overflow, Code: "context_length_exceeded",
			Message: long.Error(), Prompt: long.Prompt, Context: long.Context,
		}
	case errors.As(err, &wrong):
		return wire.Bad(wrong.Path, "%s", wrong.Msg)
	case errors.Is(err, engine.ErrNoImages):
		e := wire.Bad("", "%s%s", strings.TrimPrefix(err.Error(), engine.ErrRequest.Error()+": "), s.withVision())
		e.Code = "unsupported_content"
		return e
	case errors.Is(err, engine.ErrSlot):
		return wire.Bad("id_slot", "%v", err)
	case errors.Is(err, engine.ErrRequest), errors.Is(err, engine.ErrSession), errors.Is(err, engine.ErrEmbedding), errors.Is(err, engine.ErrRank):
		return wire.Bad("", "%s", strings.TrimPrefix(err.Error(), engine.ErrRequest.Error()+": "))
	case errors.Is(err, engine.ErrFull), errors.Is(err, engine.ErrBusy):
		return wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%v", err)
	case errors.Is(err, engine.ErrGap):
		return wire.Fault(http.StatusNotImplemented, wire.Unsupported, "%v", err)
	case errors.Is(err, context.Canceled) && s.ctx.Err() == nil:
		return errGone
	case errors.Is(err, context.Canceled), errors.Is(err, engine.ErrClosed):
		return errStopping
	}
	return wire.Fault(http.StatusInternalServerError, wire.Internal, "%v", err)
}

// locked returns the error for a request that would change a locked setting.
func locked(err error) *wire.Error {
	e := wire.Fault(http.StatusForbidden, wire.Forbidden, "%v", err)
	e.Code = "locked"
	return e
}

// statusGone is the status of a request whose client disconnected before the
// answer, as in nginx. Metrics count it separately from failures.
const statusGone = 499

// errGone is recorded for a client that disconnected. A client that closed only its
// sending side looks the same and can read the error.
var errGone = wire.Fault(statusGone, wire.Invalid, "the connection was closed before the answer was complete")

// errStopping is the error of requests that end because the server stops.
var errStopping = wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%v", pool.ErrStopping)

// fail sends an error in a dialect's form.
func (s *Server) fail(w http.ResponseWriter, form func(*wire.Error) any, err error) {
	e := s.explain(err)
	gone := errors.Is(err, context.Canceled) // the client has disconnected
	if e.Status >= http.StatusInternalServerError && !gone && !errors.As(err, new(wire.Quiet)) {
		s.log.Warn("request failed", "err", err)
	}
	if e.Retry > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((e.Retry+time.Second-1)/time.Second), 10))
	} else if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	wire.WriteJSON(w, e.Status, form(e))
}

// withVision lists the models that can read pictures. It returns "" if no model
// can.
func (s *Server) withVision() string {
	list, err := s.pool.Library().List()
	if err != nil {
		return ""
	}
	var names []string
	for i := range list {
		if list[i].Vision {
			names = append(names, list[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; models with a projector: " + strings.Join(names, ", ")
}
