package page

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"godwit/app/hub"
)

// uploadModel copies a file that was dropped on the page in a browser, because
// browsers do not reveal the file's path.
func (p *Page) uploadModel(w http.ResponseWriter, r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	if !fileName(name) {
		return nil, bad(textNotGGUFName, name)
	}
	if !p.library.copy(name) {
		return nil, refuse(http.StatusConflict, "busy", textCopying, name)
	}
	defer p.library.copied(name)
	dir := filepath.Join(p.o.Library.Dir(), "imported")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // a folder opened for reading
	if _, err := root.Stat(name); err == nil {
		return nil, of(hub.ErrExists, textCopied, name)
	}
	if err := copyIn(root, name, r.Body); err != nil {
		return nil, err
	}
	added, err := p.link(r.Context(), []string{filepath.Join(dir, name)})
	if err != nil {
		err = errors.Join(err, root.Remove(name)) // the incomplete copy is useless
	}
	return added, err
}

// fileName reports whether a file name is valid on every system.
func fileName(name string) bool {
	return strings.EqualFold(filepath.Ext(name), ".gguf") && !strings.HasPrefix(name, ".") && len(name) <= 200 &&
		utf8.ValidString(name) && !strings.ContainsAny(name, `/\:*?"<>|`) && strings.IndexFunc(name, unicode.IsControl) < 0
}

// copy records that a file is being copied. It returns false if the file is
// already being copied.
func (l *library) copy(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.copying[name] {
		return false
	}
	if l.copying == nil {
		l.copying = map[string]bool{}
	}
	l.copying[name] = true
	return true
}

func (l *library) copied(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.copying, name)
}

// copyIn writes a file and renames it once it is complete.
func copyIn(root *os.Root, name string, from io.Reader) error {
	part := name + ".part"
	f, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return root.Rename(part, name)
}
