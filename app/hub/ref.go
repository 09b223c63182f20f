package hub

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Ref names a model on a hub: owner/repo, owner/repo:Q4_K_M, or
// owner/repo:file.gguf.
type Ref struct {
	Owner, Repo string
	Select      string // quantisation or file name; empty for the default
}

// safeName matches names that are safe as folder names on every system. They
// have no separators, no leading or trailing dot, and no characters with a
// special meaning in a shell or on Windows.
var safeName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._+-]*[A-Za-z0-9_+-])?$`)

// pageOf is the path segment between the repository and the file in the hub's web
// addresses.
var pageOf = regexp.MustCompile(`^([^/]+/[^/]+)/(?:blob|resolve)/[^/]+/`)

// ParseRef parses a reference. It also accepts an address pasted from a browser.
func ParseRef(name string) (Ref, error) {
	rest := strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
	for _, host := range []string{"huggingface.co/", "hf.co/"} {
		rest = strings.TrimPrefix(rest, host)
	}
	rest = pageOf.ReplaceAllString(rest, "$1:")
	rest, sel, picked := strings.Cut(strings.TrimSuffix(rest, "/"), ":")
	owner, repo, ok := strings.Cut(rest, "/")
	r := Ref{Owner: owner, Repo: repo, Select: sel}
	if !ok || !safePart(owner) || !safePart(repo) || picked && sel == "" || sel != "" && safePath(sel) != nil {
		return Ref{}, fmt.Errorf("%w: %q, want demo, gemma-demo, owner/repo or owner/repo:Q4_K_M", ErrName, name)
	}
	return r, nil
}

// ID returns owner/repo.
func (r Ref) ID() string { return r.Owner + "/" + r.Repo }

// String returns the reference in the form that ParseRef accepts.
func (r Ref) String() string {
	if r.Select == "" {
		return r.ID()
	}
	return r.ID() + ":" + r.Select
}

func safePart(s string) bool {
	return len(s) <= 128 && safeName.MatchString(s) && !strings.Contains(s, "..") && !reserved(s)
}

// reserved reports whether Windows reserves a name for a device, with any
// extension.
func reserved(s string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(s), ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// safePath checks a slash-separated file name from a hub.
func safePath(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) > 8 {
		return fmt.Errorf("%w: %q has %d levels of folders; the limit is 8", ErrName, name, len(parts))
	}
	for _, p := range parts {
		if !safePart(p) {
			return fmt.Errorf("%w: the file name %q cannot be stored safely", ErrName, name)
		}
	}
	return nil
}

// local returns the path of a hub's file relative to the model folder.
func (r Ref) local(file string) (string, error) {
	if err := safePath(file); err != nil {
		return "", err
	}
	return filepath.Join(r.Owner, r.Repo, filepath.FromSlash(file)), nil
}
