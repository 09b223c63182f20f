package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"godwit/app/api"
	"godwit/app/config"
	"godwit/app/hub"
)

type serveCmd struct {
	Model string `arg:"" optional:"" placeholder:"MODEL" help:"Path of a GGUF file, or a name from 'godwit list'. Without one, models load on demand."`
	config.Engine
	config.Sampling
	config.Server
	config.Library
	UI bool `name:"ui" help:"Serve the page too: chats, models and settings, in the browser."`
}

// Run serves the API until it is interrupted.
func (c *serveCmd) Run(r *run) error {
	if c.UI && !r.given("kv-preset", "cache-type-k", "cache-type-v", "kv-auto") {
		if err := r.welcome(); err != nil {
			return err
		}
		preset, from, err := r.file.Lookup("kv-preset", r.env)
		if err != nil {
			return err
		}
		if from != config.FromDefault {
			c.KVPreset = fmt.Sprint(preset)
		}
	}
	o, err := c.hosting(r)
	if err != nil {
		return err
	}
	bars := loadBars{r: r}
	if o.model != nil {
		bar := r.loadBar(o.model.Name, true)
		defer bar.close()
		bars.bars = map[string]*loadBar{o.model.Path: bar}
		o.watch.Loading = func(path string, share float64) { _ = bars.of(path).share(share) } // cannot fail
	}
	o.watch.Measuring = func(path string, share float64) { _ = bars.of(path).measured(share) }
	if c.UI {
		o.page = &paged{}
	}
	h, err := r.host(o)
	if errors.Is(err, api.ErrExposed) {
		err = usage{err}
	}
	if err != nil {
		return err
	}
	l, err := h.api.Listen()
	if err != nil {
		return errors.Join(err, h.Close())
	}
	fmt.Fprintf(r.out, "listening on %s\n", h.api.URL(l))
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		r.log.Warn("listening on every address of this machine", "listen", l.Addr())
	}
	if err := r.out.Flush(); err != nil {
		return errors.Join(err, l.Close(), h.Close())
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ready := make(chan error, 1)
	go func() {
		var err error
		if o.model != nil {
			if err = h.models.Ready(ctx); err != nil && ctx.Err() == nil {
				cancel() // without its only model, the server has no purpose
			} else {
				err = nil
			}
		}
		ready <- err
	}()
	err = h.serve(ctx, l)
	cancel()
	return errors.Join(<-ready, err)
}

// hosting converts the command line to the configuration of a host.
func (c *serveCmd) hosting(r *run) (hosting, error) {
	e, err := r.options(&c.Engine, wait)
	if err != nil {
		return hosting{}, err
	}
	o := hosting{settings: config.Settings{Engine: c.Engine, Sampling: c.Sampling, Server: c.Server, Library: c.Library}, engine: e}
	if o.library, err = r.library(c.Library); err != nil {
		return o, err
	}
	if c.Model == "" {
		return o, nil
	}
	m, err := r.model(o.library, c.Model)
	if err != nil {
		return o, errors.Join(err, o.library.Close())
	}
	o.model = &m
	return o, nil
}

// model finds MODEL, a path or a name in the library.
func (r *run) model(l *hub.Library, name string) (hub.Model, error) {
	path, err := r.find(name)
	if err != nil {
		return hub.Model{}, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return hub.Model{}, err
	}
	m, err := l.Find(abs)
	if err == nil && m.Error != "" {
		err = errors.New(m.Error)
	}
	return m, err
}
