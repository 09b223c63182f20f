package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"godwit/engine/gguf"
)

// Repo is a model repository on the hub.
type Repo struct {
	ID        string      `json:"id"` // owner/repo
	Licence   string      `json:"licence,omitempty"`
	Gated     bool        `json:"gated"` // whether downloading requires the token of an account that has accepted the licence
	Downloads int64       `json:"downloads"`
	Likes     int64       `json:"likes"`
	Updated   string      `json:"updated,omitempty"` // RFC 3339
	Models    []RepoModel `json:"models"`
	Commit    string      `json:"commit,omitempty"`
	Error     string      `json:"error,omitempty"` // reason why Models is empty
}

// RepoModel is one model of a repository. It is one file, or all parts of a
// split file.
type RepoModel struct {
	Name  string     `json:"name"`  // name of the first file
	Quant string     `json:"quant"` // such as Q4_K_M; "" if the name does not contain it
	Size  int64      `json:"size"`  // bytes of all files
	Ref   string     `json:"ref"`   // reference to pull
	Files []RepoFile `json:"files"`
	// Projector is the file that the model needs to read pictures; nil without
	// one.
	Projector *RepoFile `json:"projector,omitempty"`
}

// RepoFile is a file of a repository.
type RepoFile struct {
	Name   string `json:"name"` // slash-separated
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"` // empty if the hub does not send it
}

// Limits of a hub's responses.
const (
	maxJSON     = 16 << 20 // maximum bytes of a response
	maxSiblings = 20000    // maximum files of a repository
	maxFile     = 1 << 50  // maximum bytes of a file
)

// wireRepo is the description of a repository in the hub's API.
type wireRepo struct {
	ID           string          `json:"id"`
	SHA          string          `json:"sha"`
	Gated        json.RawMessage `json:"gated"` // false, "auto" or "manual"
	Downloads    int64           `json:"downloads"`
	Likes        int64           `json:"likes"`
	LastModified string          `json:"lastModified"`
	Tags         []string        `json:"tags"`
	CardData     struct {
		License     any    `json:"license"`
		LicenseName string `json:"license_name"`
	} `json:"cardData"`
	Siblings []struct {
		Name string `json:"rfilename"`
		Size int64  `json:"size"`
		LFS  *struct {
			SHA256 string `json:"sha256"`
			Size   int64  `json:"size"`
		} `json:"lfs"`
	} `json:"siblings"`
}

// json gets and decodes a document at a path below /api.
func (c *client) json(ctx context.Context, what, path string, query url.Values, into any) error {
	resp, err := c.get(ctx, path, query, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp, what, c.token != "")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON+1))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNetwork, err)
	case len(body) > maxJSON:
		return fmt.Errorf("%w: more than %d bytes in the response for %s", ErrServer, maxJSON, what)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: the response for %s does not come from a hub's API (is --hub-url right?): %w", ErrServer, what, err)
	}
	return nil
}

// Repo gets the description of a repository (owner/repo) and its models from
// the hub.
func (l *Library) Repo(ctx context.Context, id string) (Repo, error) {
	ref, err := ParseRef(id)
	if err != nil {
		return Repo{}, err
	}
	if err := l.Allowed(); err != nil {
		return Repo{}, err
	}
	var w wireRepo
	if err := l.hub().json(ctx, ref.ID(), path.Join("api/models", ref.ID()), url.Values{"blobs": {"true"}}, &w); err != nil {
		return Repo{}, err
	}
	if len(w.Siblings) > maxSiblings {
		return Repo{}, fmt.Errorf("%w: %s lists %d files; the limit is %d", ErrServer, ref.ID(), len(w.Siblings), maxSiblings)
	}
	r := w.repo()
	r.ID = ref.ID()
	r.Models = models(ref, w.files())
	return r, nil
}

// Search finds repositories with GGUF files whose names match the words of
// query, and lists the files of each. It returns at most limit repositories,
// most downloaded first. limit is 10 by default and at most 50. If the files of
// a repository cannot be listed, its Error says so.
func (l *Library) Search(ctx context.Context, query string, limit int) ([]Repo, error) {
	if limit <= 0 {
		limit = 10
	}
	limit = min(limit, 50)
	if err := l.Allowed(); err != nil {
		return nil, err
	}
	var found []wireRepo
	err := l.hub().json(ctx, "search", "api/models", url.Values{
		"search": {query}, "filter": {"gguf"}, "sort": {"downloads"}, "direction": {"-1"}, "limit": {strconv.Itoa(limit)},
	}, &found)
	if err != nil {
		return nil, err
	}
	repos := make([]Repo, 0, limit)
	for _, w := range found {
		if ref, err := ParseRef(w.ID); err == nil && ref.Select == "" && len(repos) < limit {
			r := w.repo()
			r.ID = ref.ID()
			repos = append(repos, r)
		}
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range repos {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			full, err := l.Repo(ctx, repos[i].ID)
			if err != nil {
				repos[i].Error = err.Error()
				return
			}
			repos[i] = full
		})
	}
	wait.Wait()
	return repos, ctx.Err()
}

func (w *wireRepo) repo() Repo {
	gated := string(w.Gated)
	r := Repo{
		ID: w.ID, Commit: w.SHA, Downloads: w.Downloads, Likes: w.Likes, Updated: w.LastModified,
		Gated: gated != "" && gated != "false" && gated != "null", Licence: w.licence(),
	}
	if !hexCommit.MatchString(r.Commit) {
		r.Commit = ""
	}
	return r
}

func (w *wireRepo) licence() string {
	if name := w.CardData.LicenseName; name != "" {
		return gguf.Line(name)
	}
	if name, ok := w.CardData.License.(string); ok {
		return gguf.Line(name)
	}
	for _, tag := range w.Tags {
		if name, ok := strings.CutPrefix(tag, "license:"); ok {
			return gguf.Line(name)
		}
	}
	return ""
}

var (
	hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hexCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// files lists the GGUF files whose names can be stored.
func (w *wireRepo) files() []RepoFile {
	var list []RepoFile
	for _, s := range w.Siblings {
		if !strings.EqualFold(path.Ext(s.Name), ".gguf") || safePath(s.Name) != nil {
			continue
		}
		f := RepoFile{Name: s.Name, Size: s.Size}
		if s.LFS != nil {
			f.Size = s.LFS.Size
			if hexDigest.MatchString(s.LFS.SHA256) {
				f.SHA256 = s.LFS.SHA256
			}
		}
		if f.Size < 0 || f.Size > maxFile {
			continue
		}
		list = append(list, f)
	}
	return list
}

// models groups files into models, by name. Picture projectors and importance
// matrices do not count as models.
func models(ref Ref, files []RepoFile) []RepoModel {
	slices.SortFunc(files, func(a, b RepoFile) int { return cmp.Compare(a.Name, b.Name) })
	byName := map[string]RepoFile{}
	for _, f := range files {
		byName[f.Name] = f
	}
	list, projector := []RepoModel{}, projectorOf(files)
	for _, f := range files {
		base := strings.ToLower(path.Base(f.Name))
		if strings.HasPrefix(base, "mmproj") || strings.Contains(base, "imatrix") {
			continue
		}
		m := RepoModel{Name: f.Name, Quant: quantOf(f.Name), Size: f.Size, Files: []RepoFile{f}}
		if _, no, count, ok := gguf.Part(f.Name); ok && count > 1 {
			if no != 1 {
				continue // it is listed with the model's first part
			}
			parts, _ := gguf.SplitParts(f.Name)
			if m.Files, m.Size, ok = whole(parts, byName); !ok {
				continue
			}
		}
		m.Ref, m.Projector = Ref{ref.Owner, ref.Repo, m.Quant}.String(), projector
		list = append(list, m)
	}
	// if two files have the same quantisation, the file name distinguishes them
	count := map[string]int{}
	for _, m := range list {
		count[m.Ref]++
	}
	for i := range list {
		if m := &list[i]; count[m.Ref] > 1 {
			m.Ref = Ref{ref.Owner, ref.Repo, m.Name}.String()
		}
	}
	return list
}

// whole collects the parts of a split model. It requires all parts and limits their
// number.
func whole(parts []string, byName map[string]RepoFile) (files []RepoFile, size int64, ok bool) {
	for _, p := range parts {
		f, ok := byName[toSlash(p)]
		if !ok {
			return nil, 0, false
		}
		files = append(files, f)
		size += f.Size
	}
	return files, size, len(files) > 0
}

func toSlash(s string) string { return strings.ReplaceAll(s, `\`, "/") }

var quantName = regexp.MustCompile(`(?i)(?:^|[-._])((?:UD-)?(?:I?Q[1-8](?:_[0-9A-Z]+)*|TQ[1-4]_[0-9A-Z]+|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32|FP16|FP32))(?:[-._]|$)`)

// quantOf reads the quantisation from a file name, or otherwise from the name
// of its folder.
func quantOf(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	for part := range strings.SplitSeq(path.Base(name)+"/"+path.Dir(name), "/") {
		if all := quantName.FindAllStringSubmatch(part, -1); all != nil {
			return strings.ToUpper(all[len(all)-1][1])
		}
	}
	return ""
}

// preferred lists quantisations in order of preference, for references that do
// not name one. The first ones are small enough for most machines. The ones
// closest to them follow.
var preferred = []string{
	"Q4_K_M", "UD-Q4_K_XL", "Q4_K_S", "Q4_0", "Q4_1", "IQ4_NL", "IQ4_XS", "MXFP4", "MXFP4_MOE",
	"Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0", "Q3_K_L", "Q3_K_M", "BF16", "F16",
}

// choose picks the model that a reference names.
func choose(r Repo, sel string) (RepoModel, error) {
	if len(r.Models) == 0 {
		return RepoModel{}, fmt.Errorf("%w: %s has no GGUF files; look for a repository whose name ends in GGUF", ErrNotFound, r.ID)
	}
	matches := r.matching(sel)
	switch {
	case len(matches) == 1:
		return matches[0], nil
	case len(matches) > 1:
		return RepoModel{}, fmt.Errorf("%w: %q matches several files of %s: %s", ErrName, sel, r.ID, listing(matches))
	case sel != "":
		return RepoModel{}, fmt.Errorf("%w: %s has no %q; it has %s", ErrNotFound, r.ID, sel, listing(r.Models))
	case len(r.Models) == 1:
		return r.Models[0], nil
	}
	return RepoModel{}, fmt.Errorf("%w: %s has several models, choose one: %s", ErrName, r.ID, listing(r.Models))
}

// matching returns the models that match sel. sel is a file's whole name, the last
// part of the name, or its quantisation. If sel is "", it returns the first
// preferred model.
func (r Repo) matching(sel string) []RepoModel {
	pick := func(ok func(RepoModel) bool) []RepoModel {
		return slices.DeleteFunc(slices.Clone(r.Models), func(m RepoModel) bool { return !ok(m) })
	}
	tests := []func(RepoModel) bool{
		func(m RepoModel) bool { return m.Name == sel },
		func(m RepoModel) bool { return path.Base(m.Name) == sel },
		func(m RepoModel) bool { return strings.EqualFold(m.Quant, sel) },
		func(m RepoModel) bool { return strings.EqualFold(strings.TrimPrefix(m.Quant, "UD-"), sel) },
	}
	if sel == "" {
		tests = nil
		for _, q := range preferred {
			tests = append(tests, func(m RepoModel) bool { return m.Quant == q })
		}
	}
	for _, ok := range tests {
		if found := pick(ok); len(found) > 0 {
			return found
		}
	}
	return nil
}

// listing describes at most 20 models with their sizes.
func listing(list []RepoModel) string {
	var b strings.Builder
	for i, m := range list {
		if i == 20 {
			fmt.Fprintf(&b, " and %d more", len(list)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		_, sel, _ := strings.Cut(m.Ref, ":")
		if sel == "" {
			sel = m.Name
		}
		fmt.Fprintf(&b, "%s (%s)", sel, Bytes(m.Size))
	}
	return b.String()
}

// Bytes formats a size as text, such as "1.2 GiB".
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}
