package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/schollz/progressbar/v3"

	"godwit/app/config"
	"godwit/app/hub"
)

// library opens the user's library.
func (r *run) library(c config.Library) (*hub.Library, error) {
	if c.HubToken == "" { // the flag is not set
		if token, _, err := r.file.Lookup("library.hub_token", r.env); err == nil && token != nil {
			c.HubToken = fmt.Sprint(token)
		}
	}
	r.hide(c.HubToken)
	return hub.Open(hub.Options{
		Dir: filepath.Join(r.home.Data, "models"), Folders: c.Folders, URL: c.HubURL,
		Token: c.HubToken, NoDownloads: !c.Downloads, Log: r.log, Removed: func(ctx context.Context, path string) error { return r.tuned().Forget(ctx, path) },
	})
}

// find returns the path of MODEL, which is a path or a name in the library.
func (r *run) find(model string) (string, error) {
	info, err := os.Stat(model)
	if err == nil && !info.IsDir() {
		return model, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	settings, err := r.file.Settings(os.LookupEnv)
	if err != nil {
		return "", err
	}
	l, err := r.library(settings.Library)
	if err != nil {
		return "", err
	}
	defer l.Close()
	m, err := l.Find(model)
	if err != nil && info != nil {
		return "", fmt.Errorf("%s is a folder; name the GGUF file in it", model)
	}
	if err != nil {
		return "", err
	}
	return m.Path, nil
}

// modelName returns the name under which a model is printed.
func (r *run) modelName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".gguf")
}

type pullCmd struct {
	config.Library
	Name string `arg:"" placeholder:"NAME" help:"demo, gemma-demo, or owner/repo[:quantisation or file] on the hub."`
	JSON bool   `name:"json" help:"Machine-readable output."`
}

// Run downloads a model. Interrupting it pauses the download, and the next pull
// continues it.
func (c *pullCmd) Run(r *run) error {
	l, err := r.library(c.Library)
	if err != nil {
		return err
	}
	defer l.Close()
	bar := r.byteBar(c.Name)
	m, err := l.Pull(r.ctx, c.Name, bar.show)
	bar.close()
	if err != nil {
		if r.ctx.Err() != nil {
			return fmt.Errorf("paused; 'godwit pull %s' continues where it stopped", c.Name)
		}
		if errors.Is(err, hub.ErrName) {
			return usage{err}
		}
		return err
	}
	if c.JSON {
		return r.json(m)
	}
	fmt.Fprintf(r.out, "%s  %s  %s\n", printable(m.Name), size(m.Size), m.Quant)
	_, err = fmt.Fprintf(r.out, "licence: %s\n", cmp.Or(m.Licence, "not stated; ask the model's author before you rely on it"))
	return err
}

// byteBar is a progress bar of a download.
type byteBar struct {
	r    *run
	name string
	bar  *bar // nil until the size is known
}

func (r *run) byteBar(name string) *byteBar { return &byteBar{r: r, name: name} }

func (b *byteBar) show(p hub.Progress) {
	if p.Total <= 0 {
		return
	}
	if b.bar == nil {
		b.bar = b.r.draw(p.Total, b.name, progressbar.OptionShowBytes(true))
	}
	b.bar.set(p.Done)
}

func (b *byteBar) close() {
	if b.bar != nil {
		b.bar.close()
	}
}

type listCmd struct {
	config.Library
	JSON bool `name:"json" help:"Machine-readable output."`
}

// Run lists the library.
func (c *listCmd) Run(r *run) error {
	l, err := r.library(c.Library)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, dir := range c.Folders {
		if info, err := os.Stat(dir); err != nil {
			r.log.Warn("models folder not read", "err", err)
		} else if !info.IsDir() {
			r.log.Warn("models folder is not a folder", "path", dir)
		}
	}
	models, err := l.List()
	if err != nil {
		return err
	}
	if c.JSON {
		if models == nil {
			models = []hub.Model{}
		}
		return r.json(models)
	}
	if len(models) == 0 {
		_, err := fmt.Fprintln(r.out, "The library is empty. 'godwit pull demo' downloads a small model.")
		return err
	}
	t := newTable("NAME", "ARCH", "QUANT", "SIZE", "CONTEXT", "LICENCE")
	for _, m := range models {
		if m.Error != "" {
			t.add(m.Name, "-", "-", size(m.Size), "-", "unusable: "+m.Error)
			continue
		}
		t.add(m.Name, m.Arch, m.Quant, size(m.Size), strconv.Itoa(m.Context), m.Licence)
	}
	return t.write(r.out)
}

type rmCmd struct {
	config.Library
	Name string `arg:"" placeholder:"NAME" help:"A name from 'godwit list'. A model that was linked in place keeps its file."`
}

// Run removes a model.
func (c *rmCmd) Run(r *run) error {
	l, err := r.library(c.Library)
	if err != nil {
		return err
	}
	defer l.Close()
	return l.Remove(r.ctx, c.Name)
}
