package cli

import (
	"errors"
	"path/filepath"

	"godwit/app/api"
	"godwit/app/api/page"
	"godwit/app/config"
	"godwit/app/store"
	"godwit/engine"
)

// openPage makes the page's own endpoints and puts them, and the page, into the
// options of a server, which closes them. The page has to be told of the server.
func (r *run) openPage(o *api.Options, native page.Native, notices ...string) (*page.Page, error) {
	chats, err := store.Open(filepath.Join(r.home.Data, "chats.db"), store.Options{
		StateFolder: filepath.Join(r.home.Data, "states"), StateBudget: int64(o.Settings.Server.StateBudget),
	})
	var damage *store.Damage
	if errors.As(err, &damage) {
		notices = append(notices, "The chats could not be read. They were set aside as "+damage.Aside+". Nothing was deleted; Godwit started with an empty list.")
		r.log.Error("chats set aside", "err", damage)
	} else if err != nil {
		return nil, err
	}
	if r.problems != nil {
		notices = append(notices, "Some settings were ignored:\n"+r.problems.Error())
	}
	start := o.Settings
	start.App = r.app
	p, err := page.New(page.Options{
		Store: chats, Library: o.Library, File: r.file, Env: r.env, Start: start, Model: o.Model,
		Engine: func(c *config.Engine) (engine.Options, error) {
			o, err := r.optionsQuietly(c, later)
			o.CalibrateLater = true // a first answer does not wait for it
			return o, err
		},
		Version: o.Version, Log: o.Log, LogFile: r.logFile, Level: r.level, Native: native, Lab: newPageLab(r), Notices: notices,
	})
	if err != nil {
		return nil, errors.Join(err, chats.Close())
	}
	o.Page, o.App, o.Changed, o.Reload, o.Prepared = r.page, p, p.Changed, p.Reload, p.Prepared
	o.Progress, o.Measuring = both(o.Progress, p.Progress), both(o.Measuring, p.Measuring)
	o.AppClose = func() error { return errors.Join(p.Close(), chats.Close()) }
	return p, nil
}

// both tells two of the progress of a load; the first may be nil.
func both(a, b func(string, float64) error) func(string, float64) error {
	if a == nil {
		return b
	}
	return func(path string, share float64) error { return errors.Join(a(path, share), b(path, share)) }
}
