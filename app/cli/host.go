package cli

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"godwit/app/api"
	"godwit/app/api/page"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/app/telemetry"
	"godwit/engine"
)

// host is a running server: the models, the API, and optionally the page.
type host struct {
	models *pool.Pool
	api    *api.Server
	page   *page.Page   // nil without a page
	leave  func() error // closes the page; runs once
	close  []func() error
	closed func() error // runs the functions in close once, from last to first
}

// hosting configures a host.
type hosting struct {
	settings config.Settings
	engine   engine.Options // options for loads; a page's settings override them
	library  *hub.Library
	model    *hub.Model // the only model; nil to serve all models of the library
	watch    pool.Watcher
	page     *paged // nil without a page
}

// paged configures the page.
type paged struct {
	native  page.Native // nil outside the window
	notices []string
}

// host assembles a server. If it fails, it closes the parts that it has opened.
func (r *run) host(o hosting) (_ *host, err error) {
	h := &host{}
	h.closed = sync.OnceValue(func() error {
		var errs []error
		for _, f := range slices.Backward(h.close) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	})
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	h.close = append(h.close, o.library.Close)
	load := r.loading(&o)
	var live *config.Live
	if o.page != nil {
		var wrong error
		if live, wrong = r.live(&o.settings); wrong != nil {
			o.page.notices = append(o.page.notices, "Settings: "+wrong.Error())
		}
		load = func(path string) (engine.Options, error) {
			s, err := live.Settings()
			if err != nil {
				return engine.Options{}, err
			}
			r.tuned().Load(path, &s.Engine)
			return r.paging(&s.Engine)
		}
	}
	r.budget(&o.settings.Server)
	kept := r.prefixes(&o.settings.Server)
	h.close = append(h.close, kept.Close)
	h.models, err = pool.New(pool.Options{
		Library: o.library, Model: o.model, Engine: keeping(load, kept), Watch: o.watch, Log: r.log,
		KeepAlive: time.Duration(o.settings.Server.KeepAlive),
	})
	if err != nil {
		return h, err
	}
	h.close = append(h.close, h.models.Close)
	states := o.settings.Server.SlotSavePath
	if states == "" {
		states = filepath.Join(r.home.Data, "slots")
	}
	var audit *telemetry.Audit
	if path := o.settings.Server.AuditLog; path != "" {
		if audit, err = telemetry.OpenAudit(path); err != nil {
			return h, err
		}
		h.close = append(h.close, audit.Close)
	}
	named, err := r.named(h, &o.settings.Server, kept)
	if err != nil {
		return h, err
	}
	to := api.Options{Settings: o.settings, Keys: named, Policy: r.file, Audit: audit, Prefixes: kept, Memory: r.memory, States: states, Version: Version, Log: r.log, Tuned: r.tuned()}
	if o.page != nil && o.page.native == nil {
		to.Page = r.page // the window already has its page, and web browsers do not need one
	}
	if o.page != nil {
		if err := h.openPage(r, live, &o); err != nil {
			return h, err
		}
	}
	if h.api, err = api.New(h.models, to); err != nil {
		return h, err
	}
	if h.page != nil {
		h.api.Mount(page.Path, h.page, page.Keyless)
		live.OnChange(h.api.Apply)
	}
	h.models.Preload()
	return h, nil
}

// keeping returns load with a prefix store added to its options.
func keeping(load func(path string) (engine.Options, error), kept *engine.Prefixes) func(path string) (engine.Options, error) {
	return func(path string) (engine.Options, error) {
		o, err := load(path)
		o.Prefixes = kept
		return o, err
	}
}

// serve runs the server until ctx ends, then closes the host.
func (h *host) serve(ctx context.Context, l net.Listener) error {
	if h.page != nil { // end the page's answers at once; open API streams end a little later
		defer context.AfterFunc(ctx, func() { _ = h.leave() })() // closed returns the error of leave again
	}
	return h.api.Serve(ctx, l, h.closed)
}

// Close stops all parts of the host.
func (h *host) Close() error {
	if h.api != nil {
		h.api.Close()
	}
	return h.closed()
}

// loading returns the options of loads without a page. They are fixed, except
// for models that have their own settings.
func (r *run) loading(o *hosting) func(path string) (engine.Options, error) {
	return func(path string) (engine.Options, error) {
		e := o.settings.Engine
		if !r.tuned().Load(path, &e) {
			return o.engine, nil
		}
		return r.optionsQuietly(&e, wait)
	}
}

// live returns the settings that the page displays and changes.
func (r *run) live(start *config.Settings) (*config.Live, error) {
	s := *start
	s.App = r.app
	return config.NewLive(r.file, r.env, s)
}

// paging returns load options for a server with a page. The first answer of such
// a server does not wait for a calibration.
func (r *run) paging(c *config.Engine) (engine.Options, error) {
	o, err := r.optionsQuietly(c, later)
	o.CalibrateLater = true
	return o, err
}

// openPage adds the page's endpoints, including the chats.
func (h *host) openPage(r *run, live *config.Live, o *hosting) error {
	notices := o.page.notices
	chats, err := store.Open(filepath.Join(r.home.Data, "chats.db"), store.Options{})
	var damage *store.Damage
	if errors.As(err, &damage) {
		notices = append(notices, "The chats could not be read. They were set aside as "+damage.Aside+". Nothing was deleted; Godwit started with an empty list.")
		r.log.Error("chats set aside", "err", damage)
	} else if err != nil {
		return err
	}
	h.close = append(h.close, chats.Close)
	if r.problems != nil {
		notices = append(notices, "Some settings were ignored:\n"+r.problems.Error())
	}
	if r.overruled != nil {
		notices = append(notices, "Some settings were ignored:\n"+r.overruled.Error())
	}
	p, err := page.New(h.models, page.Options{
		Store: chats, Library: o.library, Settings: live, Model: o.model, Engine: r.paging,
		Version: Version, Log: r.log, LogFile: r.logFile, Level: r.level, Native: o.page.native, Tuned: r.tuned(), Lab: newPageLab(r), Notices: notices,
	})
	if err != nil {
		return err
	}
	h.page, h.leave = p, sync.OnceValue(p.Close)
	h.close = append(h.close, h.leave)
	return nil
}
