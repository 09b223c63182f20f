package telemetry

import (
	"context"
	"log/slog"
)

// Limits of an audit log: the size at which it is rotated, and the number of rotated
// files.
const (
	auditBytes = 64 << 20
	auditKeep  = 9
)

// Audit is a file with one JSON object per line. Every object has the time in UTC. A
// nil Audit discards its lines. Its methods are safe for concurrent use.
type Audit struct {
	log  *slog.Logger
	file *rotating
}

// OpenAudit opens a file for appending, with mode 0600. At 64 MiB it is renamed to
// FILE.1. The newest nine of such files are kept.
func OpenAudit(path string) (*Audit, error) {
	file, err := openRotating(path, auditBytes, auditKeep)
	if err != nil {
		return nil, err
	}
	form := &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		switch {
		case len(groups) > 0:
		case a.Key == slog.TimeKey:
			a.Value = slog.TimeValue(a.Value.Time().UTC())
		case a.Key == slog.LevelKey, a.Key == slog.MessageKey:
			return slog.Attr{}
		}
		return a
	}}
	return &Audit{slog.New(slog.NewJSONHandler(file, form)), file}, nil
}

// Write writes a line with pairs of names and values, as for slog.Logger.Info.
func (a *Audit) Write(pairs ...any) {
	if a != nil {
		a.log.Log(context.Background(), slog.LevelInfo, "", pairs...)
	}
}

// Close closes the file. Later lines are dropped.
func (a *Audit) Close() error { return a.file.Close() }
