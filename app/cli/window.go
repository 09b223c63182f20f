package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"

	"godwit/app/api"
	"godwit/app/api/page"
	"godwit/app/config"
	"godwit/app/telemetry"
)

// Window opens a window on a desk and returns when it was closed, or when ctx ends.
type Window func(ctx context.Context, d *Desk) error

// Desk is what a window stands on: the built page, the user's folders and theme,
// and, once Serve has been called, the server that the page talks to.
type Desk struct {
	Page    fs.FS
	Folders config.Folders
	Theme   string // system, light, dark

	run *run
}

// Origins are where the page of a window comes from, as browsers say it: on Linux
// and macOS, and on Windows.
var Origins = []string{"wails://wails", "http://wails.localhost"}

// portsTried is how many ports after a taken one are tried.
const portsTried = 20

// Served is the server of a window.
type Served struct {
	*page.Page
	Config page.Config
	end    context.CancelFunc
	done   chan error
}

// openWindow runs the program as a window.
func (r *run) openWindow(window Window) error {
	settings, err := r.file.Settings(r.env)
	if err != nil {
		return err
	}
	r.app = settings.App
	r.logFile = filepath.Join(r.home.Log, "godwit.log")
	log, err := telemetry.OpenLog(telemetry.LogOptions{Level: r.app.LogLevel, Terminal: r.err, Before: r.clearBar, File: r.logFile})
	if err != nil {
		log.Warn("no log file", "err", err)
		r.logFile = ""
	}
	defer log.Close() //nolint:errcheck // nothing is left to say it to
	for _, key := range settings.Server.APIKey {
		log.Hide(key)
	}
	r.log, r.level, r.hide = log.Logger, log.SetLevel, log.Hide
	return window(r.ctx, &Desk{Page: r.page, Folders: r.home, Theme: r.app.Theme, run: r})
}

// Serve starts the server on the port of the settings, or the next free one.
func (d *Desk) Serve(ctx context.Context, native page.Native) (*Served, error) {
	r := d.run
	if err := r.welcome(); err != nil {
		return nil, err
	}
	settings, err := r.file.Settings(r.env)
	if err != nil {
		return nil, err
	}
	settings.Server.AllowedOrigin = append(settings.Server.AllowedOrigin, Origins...)
	e, err := r.options(&settings.Engine, later)
	if err != nil {
		return nil, err
	}
	o := hosting{settings: settings, engine: e, page: &paged{native: native}}
	if o.library, err = r.library(settings.Library); err != nil {
		return nil, err
	}
	l, wanted, refused, err := listen(settings.Server.Host, settings.Server.Port)
	if err != nil {
		return nil, errors.Join(err, o.library.Close())
	}
	if port := l.Addr().(*net.TCPAddr).Port; wanted > 0 && port != wanted {
		o.page.notices = append(o.page.notices, portNotice(wanted, port, refused))
	}
	h, err := r.host(o)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Served{Page: h.page, Config: h.page.Config(api.URL(l)), done: make(chan error, 1)}
	ctx, s.end = context.WithCancel(ctx)
	go func() { s.done <- h.serve(ctx, l) }()
	return s, nil
}

// Close ends the server: answers are stored as far as they are, and the states of
// chats are saved.
func (s *Served) Close() error {
	s.end()
	return <-s.done
}

// welcome makes the choices of the first start: the cache types that the quality
// lab found to lose nothing, unless the person has chosen some.
func (r *run) welcome() error {
	settings, err := r.file.Settings(r.env)
	if err != nil || settings.App.Welcomed {
		return err
	}
	changes := map[string]any{"app.welcomed": true}
	if r.unchosen() {
		changes["engine.kv_preset"] = firstPreset
	}
	if err := r.file.Save(changes); err != nil && !errors.Is(err, config.ErrDamaged) {
		r.log.Warn("settings not saved", "err", err)
	}
	return nil
}

// firstPreset is the preset of the first start of the page.
const firstPreset = "quality"

// unchosen reports whether the person has set no cache types.
func (r *run) unchosen() bool {
	for _, name := range []string{"engine.kv_preset", "engine.cache_type_k", "engine.cache_type_v", "engine.kv_auto"} {
		if _, origin, err := r.file.Lookup(name, r.env); err != nil || origin != config.FromDefault {
			return false
		}
	}
	return true
}

// portNotice says why the API is not on the port that the settings name.
func portNotice(wanted, port int, refused error) string {
	why := "cannot be opened"
	switch {
	case api.PortForbidden(refused):
		why = "needs administrator rights"
	case api.PortTaken(refused):
		why = "is taken by another program"
	}
	return fmt.Sprintf("Port %d %s. For now the API is on port %d.", wanted, why, port)
}

// listen opens a port, or one of the next ones if it is taken, or any. refused is
// why the first one was not opened.
func listen(host string, port int) (l net.Listener, wanted int, refused, err error) {
	for i := range portsTried {
		l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+i)))
		if i == 0 {
			refused = err
		}
		if err == nil || port == 0 || port+i >= 65535 || !api.PortTaken(err) {
			break
		}
	}
	if err != nil && port > 0 {
		l, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, port, refused, fmt.Errorf("no port to listen on: %w", err)
	}
	return l, port, refused, nil
}

// Log is what the window says something to.
func (d *Desk) Log(text string, args ...any) { d.run.log.Info(text, args...) }

// Language is the locale that a web view needs where the environment names none
// that it understands: the variables to set, by name.
func Language(env config.Env) map[string]string {
	const english = "en_US.UTF-8"
	set := map[string]string{}
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		value, ok := env(name)
		if ok && value != "" && !plain(value) {
			return set // it counts before those that follow
		}
		if value != "" || name == "LANG" {
			set[name] = english
		}
	}
	return set
}

// plain reports the locales without a language.
func plain(locale string) bool {
	switch locale {
	case "C", "POSIX", "C.UTF-8", "C.utf8":
		return true
	}
	return false
}

// FocusFile is where a running window says how to reach it.
func (d *Desk) FocusFile() string { return filepath.Join(d.Folders.Data, "window.json") }

// LockFile is held by the window that runs.
func (d *Desk) LockFile() string { return filepath.Join(d.Folders.Data, "window.lock") }
