package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// hidden replaces a secret in the log.
const hidden = "(hidden)"

// private lists the keys whose values are never written: texts of people and
// models, and credentials. Code should not log them in the first place. This is a
// second safeguard.
var private = []string{
	"prompt", "system", "messages", "message", "content", "text", "answer", "input", "output", "body",
	"key", "api_key", "apikey", "token", "secret", "password", "authorization", "cookie", "x-api-key",
}

// secrets is a list of strings to hide. Derived loggers share it.
type secrets struct {
	mu   sync.RWMutex
	list []string
}

func (s *secrets) add(secret string) {
	if len(secret) < 4 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.list, secret) {
		s.list = append(s.list, secret)
	}
}

func (s *secrets) clean(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, secret := range s.list {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// scrub is a handler that drops records below the level and removes secrets from
// the others.
type scrub struct {
	slog.Handler
	level   *slog.LevelVar
	secrets *secrets
}

func (h scrub) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

func (h scrub) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.secrets.clean(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h scrub) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return scrub{h.Handler.WithAttrs(clean), h.level, h.secrets}
}

func (h scrub) WithGroup(name string) slog.Handler {
	return scrub{h.Handler.WithGroup(name), h.level, h.secrets}
}

// attr returns a with secrets hidden, also in groups. Values that are neither
// numbers nor times are converted to text, so that a secret inside an error or
// a struct is found.
func (h scrub) attr(a slog.Attr) slog.Attr {
	if slices.Contains(private, strings.ToLower(a.Key)) {
		return slog.String(a.Key, hidden)
	}
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(h.secrets.clean(a.Value.String()))
	case slog.KindAny:
		a.Value = slog.StringValue(h.secrets.clean(fmt.Sprint(a.Value.Any())))
	case slog.KindGroup:
		group := make([]slog.Attr, len(a.Value.Group()))
		for i, inner := range a.Value.Group() {
			group[i] = h.attr(inner)
		}
		a.Value = slog.GroupValue(group...)
	}
	return a
}
