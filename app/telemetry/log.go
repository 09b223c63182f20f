// Package telemetry sets up what Godwit says about itself: the log, on the
// terminal and in a file of limited size, and the metrics. Nothing leaves the
// machine, and neither holds prompts, answers or keys.
//
//	log, err := telemetry.OpenLog(telemetry.LogOptions{Level: "info", Terminal: os.Stderr, File: path})
//	...
//	defer log.Close()
//	engine.Open(ctx, path, engine.Options{Log: log.Logger})
package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	charm "github.com/charmbracelet/log"
	"github.com/muesli/termenv"
)

// Levels are the names of the levels, from most to least output.
var Levels = []string{"debug", "info", "warn", "error"}

// ErrLevel is returned for a name that is not in Levels.
var ErrLevel = errors.New("unknown log level")

// LogOptions sets where the log is written. The zero value discards it.
type LogOptions struct {
	Level     string    // one of Levels; empty: info
	Terminal  io.Writer // terminal of the user, with colours if it is one; nil: none
	Before    func()    // called before each line on Terminal, for example to clear a progress bar; may be nil
	File      string    // path of the log file; empty: none
	FileBytes int64     // size at which the file is rotated; 0: 4 MiB
	FileKeep  int       // number of rotated files that are kept, FILE.1 the newest; 0: 3
}

// Log is a logger with a level that can be changed while it is in use.
type Log struct {
	*slog.Logger
	level   slog.LevelVar
	secrets secrets
	file    *rotating
}

// OpenLog opens the log. A file that cannot be opened is an error, but the
// returned log still writes to the terminal, so that the error can be reported
// there.
func OpenLog(o LogOptions) (*Log, error) {
	l := &Log{}
	var outputs []slog.Handler
	if o.Terminal != nil {
		log := charm.NewWithOptions(&quiet{o.Terminal, o.Before}, charm.Options{
			Level: charm.DebugLevel, ReportTimestamp: true, TimeFormat: time.TimeOnly,
		})
		log.SetColorProfile(termenv.NewOutput(o.Terminal).EnvColorProfile())
		outputs = append(outputs, log)
	}
	var fileErr error
	if o.File != "" {
		if l.file, fileErr = openRotating(o.File, o.FileBytes, o.FileKeep); fileErr == nil {
			outputs = append(outputs, charm.NewWithOptions(l.file, charm.Options{
				Level: charm.DebugLevel, ReportTimestamp: true, TimeFormat: time.RFC3339,
				TimeFunction: charm.NowUTC, Formatter: charm.LogfmtFormatter,
			}))
		}
	}
	l.Logger = slog.New(scrub{slog.NewMultiHandler(outputs...), &l.level, &l.secrets})
	return l, errors.Join(fileErr, l.SetLevel(o.Level))
}

// quiet hides a terminal from charm, which would otherwise query its colours with
// escape sequences. If the terminal does not answer, each query takes five seconds
// and loses what was typed in the meantime. The log's styles do not need the
// colours.
type quiet struct {
	io.Writer
	before func()
}

func (q *quiet) Write(line []byte) (int, error) {
	if q.before != nil {
		q.before()
	}
	return q.Writer.Write(line)
}

// SetLevel changes the level at once, also for loggers that were derived from
// this one earlier. An unknown name changes nothing.
func (l *Log) SetLevel(name string) error {
	if name == "" {
		name = "info"
	}
	var level slog.Level
	if !slices.Contains(Levels, name) || level.UnmarshalText([]byte(name)) != nil {
		return fmt.Errorf("%w %q: use one of %s", ErrLevel, name, strings.Join(Levels, ", "))
	}
	l.level.Set(level)
	return nil
}

// Hide keeps a secret, such as an API key, out of all later lines. Secrets of
// fewer than four bytes are not hidden, because that would blank ordinary
// words.
func (l *Log) Hide(secret string) { l.secrets.add(secret) }

// Close closes the file. Later lines are written only to the terminal.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
