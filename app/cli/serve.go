package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"godwit/app/api"
	"godwit/app/api/page"
	"godwit/app/config"
	"godwit/app/hub"
)

type serveCmd struct {
	Model string `arg:"" optional:"" placeholder:"MODEL" help:"Path of a GGUF file, or a name from 'godwit list'. Without one, models load when they are asked for."`
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
	o, err := c.options(r)
	if err != nil {
		return err
	}
	defer o.Library.Close() //nolint:errcheck // it holds idle connections
	bars := loadBars{r: r}
	if o.Model != nil {
		bar := r.loadBar(o.Model.Name, true)
		defer bar.close()
		bars.bars = map[string]*loadBar{o.Model.Path: bar}
		o.Progress = func(path string, share float64) error { return bars.of(path).share(share) }
	}
	o.Measuring = func(path string, share float64) error { return bars.of(path).measured(share) }
	var p *page.Page
	if c.UI {
		if p, err = r.openPage(&o, nil); err != nil {
			return err
		}
	}
	s, err := api.New(o)
	if errors.Is(err, api.ErrExposed) {
		err = usage{err}
	}
	if err != nil {
		if p != nil {
			err = errors.Join(err, o.AppClose())
		}
		return err
	}
	if p != nil {
		p.Use(s)
	}
	l, err := s.Listen()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	fmt.Fprintf(r.out, "listening on %s\n", api.URL(l))
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		r.log.Warn("every address of this machine answers, to whoever has the API key", "listen", l.Addr())
	}
	if err := r.out.Flush(); err != nil {
		return errors.Join(err, l.Close(), s.Close())
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ready := make(chan error, 1)
	go func() {
		var err error
		if o.Model != nil {
			if err = s.Ready(ctx); err != nil && ctx.Err() == nil {
				cancel() // a server whose only model does not load serves nobody
			} else {
				err = nil
			}
		}
		ready <- err
	}()
	err = s.Serve(ctx, l)
	cancel()
	return errors.Join(<-ready, err)
}

// options turns the command line into the server's options.
func (c *serveCmd) options(r *run) (api.Options, error) {
	e, err := r.options(&c.Engine, wait)
	if err != nil {
		return api.Options{}, err
	}
	o := api.Options{
		Settings: config.Settings{Engine: c.Engine, Sampling: c.Sampling, Server: c.Server, Library: c.Library},
		Engine:   e, States: c.SlotSavePath, Version: Version, Log: r.log,
	}
	if o.States == "" {
		o.States = filepath.Join(r.home.Data, "slots")
	}
	if o.Library, err = r.library(c.Library); err != nil {
		return o, err
	}
	if c.Model == "" {
		return o, nil
	}
	m, err := r.model(o.Library, c.Model)
	if err != nil {
		return o, errors.Join(err, o.Library.Close())
	}
	o.Model = &m
	return o, nil
}

// model finds MODEL, a path or a name of the library.
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
