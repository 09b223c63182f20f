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

// Window opens a window with a Desk. It returns when the window is closed or ctx
// ends.
type Window func(ctx context.Context, d *Desk) error

// Desk holds everything that a window needs: the built page, the user's folders
// and theme, and, after Serve, the server for the page.
type Desk struct {
	Page    fs.FS
	Folders config.Folders
	Theme   string // one of system, light, dark

	run *run
}

// Origins are the origins that browsers report for the window's page. The first
// one is for Linux and macOS, the second for Windows.
var Origins = []string{"wails://wails", "http://wails.localhost"}

// portsTried is the number of further ports to try if a port is taken.
const portsTried = 20

// Served is the server of a window.
type Served struct {
	*page.Page
	Config page.Config
	end    context.CancelFunc
	done   chan error
}

// openWindow runs the program with a window.
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

// Serve starts the server on the configured port or the next free one.
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
	l, wanted, refused, err := listen(&settings.Server)
	if err != nil {
		return nil, errors.Join(err, o.library.Close())
	}
	if at, ok := l.Addr().(*net.TCPAddr); ok && wanted > 0 && at.Port != wanted {
		o.page.notices = append(o.page.notices, portNotice(wanted, at.Port, refused))
	}
	h, err := r.host(o)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Served{Page: h.page, Config: h.page.Config(h.api.URL(l)), done: make(chan error, 1)}
	ctx, s.end = context.WithCancel(ctx)
	go func() { s.done <- h.serve(ctx, l) }()
	return s, nil
}

// Close stops the server and stores unfinished answers.
func (s *Served) Close() error {
	s.end()
	return <-s.done
}

// welcome sets the defaults at the first start. It chooses the cache types that
// the quality lab found to be lossless, unless the user has chosen types.
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

// firstPreset is the preset at the first start of the page.
const firstPreset = "quality"

// unchosen reports whether the user has set no cache types.
func (r *run) unchosen() bool {
	for _, name := range []string{"engine.kv_preset", "engine.cache_type_k", "engine.cache_type_v", "engine.kv_auto"} {
		if _, origin, err := r.file.Lookup(name, r.env); err != nil || origin != config.FromDefault {
			return false
		}
	}
	return true
}

// portNotice explains why the API is not on the configured port.
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

// listen opens the socket of the settings, or else a port. If the port is taken,
// it opens one of the next ports, or any free port. refused is the reason why the first port was not opened.
func listen(set *config.Server) (l net.Listener, wanted int, refused, err error) {
	if set.UnixSocket != "" {
		l, err = api.Listen(set)
		return l, 0, nil, err
	}
	host, port := set.Host, set.Port
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

// Log logs the window's messages.
func (d *Desk) Log(text string, args ...any) { d.run.log.Info(text, args...) }

// Language returns the environment variables to set if the environment names no
// locale that a web view supports.
func Language(env config.Env) map[string]string {
	const english = "en_US.UTF-8"
	set := map[string]string{}
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		value, ok := env(name)
		if ok && value != "" && !plain(value) {
			return set // this variable takes precedence over the later ones
		}
		if value != "" || name == "LANG" {
			set[name] = english
		}
	}
	return set
}

// plain reports whether a locale names no language.
func plain(locale string) bool {
	switch locale {
	case "C", "POSIX", "C.UTF-8", "C.utf8":
		return true
	}
	return false
}

// FocusFile returns the path of the file with the address of a running window.
func (d *Desk) FocusFile() string { return filepath.Join(d.Folders.Data, "window.json") }

// LockFile returns the path of the file that the running window locks.
func (d *Desk) LockFile() string { return filepath.Join(d.Folders.Data, "window.lock") }
