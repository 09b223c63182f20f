package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"godwit/app/api/wire"
)

// enter counts a request that holds a body. If there are too many, it drops the
// slowest bodies, so that unfinished uploads do not block other requests.
func (s *Server) enter(r *http.Request) error {
	select {
	case s.flight <- struct{}{}:
		return nil
	default:
	}
	full := wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "too many requests: %d are already waiting, which is the limit", cap(s.flight))
	end := time.NewTimer(flightWait)
	defer end.Stop()
	again := time.NewTicker(readerGrace / 10)
	defer again.Stop()
	for {
		s.readers.oust()
		select {
		case s.flight <- struct{}{}:
			return nil
		case <-r.Context().Done():
			return errGone
		case <-end.C:
			return full
		case <-again.C:
			if !s.readers.any() {
				return full
			}
		}
	}
}

// body reads the body of a request within its limits of size and time.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkType(r); err != nil {
		return nil, err
	}
	tooLarge := wire.Fault(http.StatusRequestEntityTooLarge, wire.Invalid, "the body is larger than %d bytes", maxBody)
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	if p, ok := r.Body.(*paced); ok {
		p.end = time.Now().Add(s.guard.total)
	}
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	data, err := io.ReadAll(io.LimitReader(limited, largeBody))
	if err == nil && len(data) == largeBody {
		size := r.ContentLength
		if size < 0 {
			size = maxBody
		}
		if !s.raw.try(size) {
			_, _ = io.Copy(io.Discard, limited) // if the connection broke during the upload, the client would not read the error
			return nil, wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "other requests with large bodies use up the limit of %d bytes; try again later", rawBytes)
		}
		context.AfterFunc(r.Context(), func() { s.raw.give(size) })
		var rest []byte
		rest, err = io.ReadAll(limited)
		data = append(data, rest...)
	}
	var limit *http.MaxBytesError
	switch {
	case errors.As(err, &limit):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, wire.Fault(http.StatusRequestTimeout, wire.Invalid, "the body arrived too slowly: nothing after %d bytes", len(data))
	case err != nil:
		return nil, wire.Bad("", "the body broke off after %d bytes: %v", len(data), err)
	}
	if rec, ok := w.(*recorder); ok {
		if names := wire.Ignored(data, rec.request); names != "" {
			w.Header().Set(wire.IgnoredHeader, names)
		}
	}
	return data, s.admit(r, int64(len(data)))
}

// admit waits until there is memory to parse a body, but not longer than a body
// may take to arrive. The bytes of the request count until it ends. A client
// that disconnects ends the wait.
func (s *Server) admit(r *http.Request, bytes int64) error {
	if bytes <= smallBody {
		return nil
	}
	ctx, cancel := s.context(r)
	defer cancel()
	full := wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "the body has %d bytes, and other requests use up the common limit of %d bytes; try again later", bytes, valueBytes)
	ctx, stop := context.WithTimeoutCause(ctx, s.guard.turn, full)
	defer stop()
	if err := s.values.acquire(ctx, bytes); err != nil {
		return err
	}
	context.AfterFunc(r.Context(), func() { s.values.give(bytes) })
	return nil
}

// note sends a notice about how a request was read to the client and to the log.
// Agents repeat their requests, so each notice is logged only once at level Info.
func (s *Server) note(w http.ResponseWriter, notices wire.Notices, unused []string) {
	for _, text := range notices {
		w.Header().Add(wire.NoticeHeader, text)
		if s.noted.first(text) {
			s.log.Info("request notice", "notice", text)
		} else {
			s.log.Debug("request notice", "notice", text)
		}
	}
	if len(unused) > 0 {
		s.log.Debug("request fields ignored", "fields", unused)
	}
}
