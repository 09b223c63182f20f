package hub

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Ref names models on a hub: owner/repo, owner/repo:Q4_K_M, or
// owner/repo:file.gguf.
type Ref struct {
	Owner, Repo string
	Select      string // quantisation or file; "" for the default
}

// Names that are safe as folders everywhere: no separators, no leading or
// trailing dot, nothing that a shell or Windows gives a meaning to.
var safeName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._+-]*[A-Za-z0-9_+-])?$`)

// pageOf is what a hub's page of a file has between repository and file.
var pageOf = regexp.MustCompile(`^([^/]+/[^/]+)/(?:blob|resolve)/[^/]+/`)

// ParseRef reads a name, also with the hub's address in front as people paste
// it from a browser.
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

// ID is owner/repo.
func (r Ref) ID() string { return r.Owner + "/" + r.Repo }

// String is the name that ParseRef reads.
func (r Ref) String() string {
	if r.Select == "" {
		return r.ID()
	}
	return r.ID() + ":" + r.Select
}

func safePart(s string) bool {
	return len(s) <= 128 && safeName.MatchString(s) && !strings.Contains(s, "..") && !reserved(s)
}

// reserved reports the names that are devices on Windows, with any extension.
func reserved(s string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(s), ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// safePath checks a slash-separated file name that a hub sent.
func safePath(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) > 8 {
		return fmt.Errorf("%w: %q has %d levels of folders", ErrName, name, len(parts))
	}
	for _, p := range parts {
		if !safePart(p) {
			return fmt.Errorf("%w: the file name %q is not safe to store", ErrName, name)
		}
	}
	return nil
}

// local is the place of a hub's file in the model folder, relative to it.
func (r Ref) local(file string) (string, error) {
	if err := safePath(file); err != nil {
		return "", err
	}
	return filepath.Join(r.Owner, r.Repo, filepath.FromSlash(file)), nil
}
