package page

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/tune"
	"godwit/engine"
)

// model is a model in the page's form.
type model struct {
	hub.Model
	State    pool.State `json:"state"`
	Progress float64    `json:"progress,omitempty"` // progress of a load, from 0 to 1
	Failure  string     `json:"failure,omitempty"`  // why the last load failed, and what the user can do
	Context  int        `json:"loaded_context,omitempty"`
	Bytes    int64      `json:"loaded_bytes,omitempty"`
	Stale    bool       `json:"stale,omitempty"` // whether load settings have changed since the load
	// Settings are the model's own settings; nil without any.
	Settings *tune.Settings `json:"settings,omitempty"`
	// Advice is what the model's maker recommends; nil if that is unknown.
	Advice *tune.Advice `json:"advice,omitempty"`
	// Can lists what the model can do according to its file: tools, thinking,
	// vision, infill, embedding.
	Can []string `json:"can,omitempty" ts:"('tools' | 'thinking' | 'vision' | 'infill' | 'embedding')[]"`
	// Room is the memory that a load takes.
	Room room `json:"room"`
	// Measuring is the progress of the calibration before the load; nil without
	// one.
	Measuring *progress `json:"measuring,omitempty"`
	// Preparing is the calibration in the background, for the next load; nil without
	// one.
	Preparing *preparing `json:"preparing,omitempty"`
}

// room compares the memory that a model needs with a small cache to the machine's memory.
type room struct {
	Need   int64  `json:"need"`
	Memory int64  `json:"memory"` // memory of the machine; 0 if unknown
	Fit    string `json:"fit" ts:"'fits' | 'tight' | 'large' | 'unknown'"`
}

// roomOf returns the room of a model. A loaded model always fits.
func roomOf(m *model, on machine) room {
	r := room{Need: needs(m.Size), Memory: on.Memory, Fit: fit(m.Size, on)}
	if m.State == pool.Loaded {
		r.Need, r.Fit = max(r.Need, m.Bytes), "fits"
	}
	return r
}

// library holds the page's list of model files and the loads in progress.
type library struct {
	mu        sync.Mutex
	models    []hub.Model
	progress  map[string]float64   // progress of loads, by path
	measuring map[string]*measured // calibrations before loads, by path
	preparing map[string]preparing // background calibrations, by path
	copying   map[string]bool      // files that are being copied into the library, by name
	watchers  map[string]map[*func(waiting)]struct{}
	reading   sync.Mutex // allows one scan of the files at a time
}

func (l *library) find(name string) (hub.Model, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.models {
		if l.models[i].Name == name {
			return l.models[i], true
		}
	}
	return hub.Model{}, false
}

// watch calls f with the progress of loading a path, until the returned function is
// called.
func (l *library) watch(path string, f func(w waiting)) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watchers == nil {
		l.watchers = map[string]map[*func(waiting)]struct{}{}
	}
	if l.watchers[path] == nil {
		l.watchers[path] = map[*func(waiting)]struct{}{}
	}
	l.watchers[path][&f] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers[path], &f)
	}
}

// watching returns the watchers of a path. The caller holds l.mu.
func (l *library) watching(path string) (list []func(waiting)) {
	for f := range l.watchers[path] {
		list = append(list, *f)
	}
	return list
}

// refresh scans the files again.
func (p *Page) refresh() error {
	p.library.reading.Lock()
	defer p.library.reading.Unlock()
	list, err := p.o.Library.List()
	if err != nil {
		return err
	}
	if m := p.o.Model; m != nil && !slices.ContainsFunc(list, func(x hub.Model) bool { return x.Path == m.Path }) {
		list = append(list, *m)
	}
	p.library.mu.Lock()
	p.library.models = list
	p.library.mu.Unlock()
	return nil
}

// list returns the library with the state of each model.
func (p *Page) list() []model {
	p.library.mu.Lock()
	files := p.library.models
	p.library.mu.Unlock()
	list := make([]model, 0, len(files))
	on := p.machine()
	for i := range files {
		m := p.standing(&files[i])
		m.Room = roomOf(&m, on)
		list = append(list, m)
	}
	return list
}

func (p *Page) standing(f *hub.Model) model {
	st := p.models.Standing(f.Path)
	m := model{Model: *f, State: st.State, Context: st.Context, Bytes: st.Bytes}
	m.Template = ""
	if own := p.o.Tuned.Of(f.Path); !own.Empty() {
		m.Settings = &own
	}
	if m.Can = abilities(f); !pool.Embeds(f) {
		m.Advice = tune.Recommend(&f.Info)
	}
	p.library.mu.Lock()
	defer p.library.mu.Unlock()
	if now, ok := p.library.preparing[f.Path]; ok {
		m.Preparing = &now
	}
	switch st.State {
	case pool.Loaded:
		now, err := p.reload(f.Path)
		used := st.Options
		used.Prefixes, now.Prefixes = nil, nil // the prefix store is ignored, because it is not a setting
		m.Stale = err == nil && !reflect.DeepEqual(used, now)
	case pool.Loading:
		m.Progress = p.library.progress[f.Path]
		if now := p.library.measuring[f.Path]; now != nil {
			m.Measuring = &now.progress
		}
	case pool.Failed:
		if errors.Is(st.Err, pool.ErrStopped) {
			m.State = pool.Unloaded
		} else {
			m.Failure = advice(st.Err)
		}
	}
	return m
}

func (p *Page) modelsChanged() {
	p.events.publish("models", "models", latest(func() any { return p.list() }))
}

// watcher returns the functions that notify the page about changes of models.
func (p *Page) watcher() pool.Watcher {
	return pool.Watcher{
		Changed: func() { p.spawn(p.modelsChanged) },
		Loading: p.loading, Measuring: p.measuring, Preparing: p.preparing,
	}
}

// loading records the progress of a load.
func (p *Page) loading(path string, share float64) {
	l := &p.library
	l.mu.Lock()
	if l.progress == nil {
		l.progress = map[string]float64{}
	}
	delete(l.measuring, path)
	step := int(100*share) != int(100*l.progress[path])
	l.progress[path] = share
	watching := l.watching(path)
	l.mu.Unlock()
	if step {
		for _, f := range watching {
			f(waiting{Phase: "load", Done: int(1000 * share), Total: 1000})
		}
		p.modelsChanged()
	}
}

// lookUp finds a model. If it is missing, lookUp scans the files again first.
func (p *Page) lookUp(name string) (hub.Model, bool) {
	m, ok := p.library.find(name)
	if !ok && name != "" && p.refresh() == nil {
		m, ok = p.library.find(name)
	}
	return m, ok
}

// named returns the model in the path of a request.
func (p *Page) named(r *http.Request) (hub.Model, error) {
	m, ok := p.lookUp(r.PathValue("name"))
	if !ok {
		return m, refuse(http.StatusNotFound, "not_found", textNoSuchModel, r.PathValue("name"))
	}
	return m, nil
}

// detail is the complete description of a model.
type detail struct {
	model
	TemplateSource string `json:"template"`
	TemplateHash   string `json:"template_hash,omitempty"`
	TemplateNote   string `json:"template_note,omitempty"`
	Problem        string `json:"problem,omitempty"` // reason why the model cannot run
}

func (p *Page) showModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	f, err := p.named(r)
	if err != nil {
		return nil, err
	}
	d := detail{model: p.standing(&f)}
	d.Room = roomOf(&d.model, p.machine())
	if f.Error != "" {
		return d, nil
	}
	m, err := engine.OpenModel(f.Path)
	if err != nil {
		d.Problem = err.Error()
		return d, nil //nolint:nilerr // the problem is part of the answer
	}
	d.TemplateSource, d.TemplateNote = m.ChatTemplate()
	d.TemplateHash = engine.TemplateHash(d.TemplateSource)
	return d, m.Close()
}

// loadModel starts to load a model without waiting for it.
func (p *Page) loadModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := p.named(r)
	if err != nil {
		return nil, err
	}
	if m, err = p.modelFor(m.Name); err != nil {
		return nil, err
	}
	return nil, p.load(m)
}

// load starts to load a model.
func (p *Page) load(m hub.Model) error {
	p.library.mu.Lock()
	delete(p.library.progress, m.Path)
	p.library.mu.Unlock()
	if !p.spawn(func() {
		if lease, err := p.models.Acquire(p.ctx, m, pool.Terms{}); err == nil {
			lease.Release()
		} // the model's state contains an error, if any
	}) {
		return errClosing
	}
	return nil
}

func (p *Page) cancelLoad(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := p.named(r)
	if err != nil {
		return nil, err
	}
	if !p.models.StopLoad(m.Path) && p.models.Standing(m.Path).State == pool.Loaded {
		p.spawn(func() { // the load ended before it could be stopped
			if err := p.unload(m.Path); err != nil {
				p.log.Info("model not unloaded after a late stop", "err", err)
			}
		})
	}
	return nil, nil
}

func (p *Page) unloadModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := p.named(r)
	if err != nil {
		return nil, err
	}
	return nil, p.unload(m.Path)
}

// unload unloads a model.
func (p *Page) unload(path string) error {
	p.titles.yield()
	p.models.StopPreparing(path)
	return p.models.Unload(path)
}

// reloadModel loads a model with the current settings.
func (p *Page) reloadModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := p.named(r)
	if err != nil {
		return nil, err
	}
	if err := p.unload(m.Path); err != nil {
		return nil, err
	}
	return nil, p.load(m)
}

func (p *Page) removeModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := p.named(r)
	if err != nil {
		return nil, err
	}
	if err := p.unload(m.Path); err != nil {
		return nil, err
	}
	if err := p.o.Library.Remove(r.Context(), m.Name); err != nil {
		return nil, err
	}
	return nil, p.refreshed()
}

// refreshed scans the files again and notifies the windows.
func (p *Page) refreshed() error {
	err := p.refresh()
	p.modelsChanged()
	return err
}

func (p *Page) refreshLibrary(http.ResponseWriter, *http.Request) (any, error) {
	return nil, p.refreshed()
}

// importModel links a file, or every model directly in a folder.
func (p *Page) importModel(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Path string `json:"path"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return nil, err
	}
	return p.link(r.Context(), []string{q.Path})
}

// linked lists the models that an import has added.
type linked struct {
	Models []string `json:"models"`
}

func (p *Page) link(ctx context.Context, paths []string) (any, error) {
	var out linked
	var errs []error
	for _, path := range paths {
		files, err := ggufs(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			m, err := p.o.Library.Import(ctx, file, p.linking(file))
			switch {
			case err == nil:
				out.Models = append(out.Models, m.Name)
			case len(files) == 1 || !errors.Is(err, hub.ErrExists):
				errs = append(errs, err)
			}
		}
	}
	return out, errors.Join(errors.Join(errs...), p.refreshed())
}

// linking returns a function that reports how much of a file has been read for
// its digest.
func (p *Page) linking(file string) func(hub.Progress) {
	return func(q hub.Progress) {
		p.events.publish("import", "import/"+file, q)
	}
}

// examplePath is an example of a path on this system.
func examplePath() string {
	home, err := os.UserHomeDir()
	if err != nil {
		home = string(filepath.Separator)
	}
	return filepath.Join(home, "model.gguf")
}

// unreadable returns an error that explains why a path cannot be used.
func unreadable(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bad(textNoFile, path)
	case errors.Is(err, fs.ErrPermission):
		return bad(textMayNotRead, path)
	}
	return bad("%v", err)
}

// ggufs returns the file at a path, or the model files in a folder.
func ggufs(path string) ([]string, error) {
	if path = strings.TrimSpace(path); path == "" {
		return nil, bad(textEnterPath)
	}
	if rest, ok := strings.CutPrefix(path, "~"+string(filepath.Separator)); ok {
		if home, err := os.UserHomeDir(); err == nil {
			path = filepath.Join(home, rest)
		}
	}
	if !filepath.IsAbs(path) {
		return nil, bad(textFullPath, examplePath())
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.EqualFold(filepath.Ext(e.Name()), ".gguf") && !strings.HasPrefix(e.Name(), "mmproj") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, bad(textNoGGUF, path)
	}
	return files, nil
}
