package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/engine"
)

// mostPrefixDisk is the default limit for stored prefixes on disk.
const mostPrefixDisk = 8 << 30

// prefixFolder returns the folder of stored prefixes.
func (r *run) prefixFolder() string { return filepath.Join(r.home.Data, "cache", "prefixes") }

// prefixes opens the prefix store, and logs its folder.
func (r *run) prefixes(s *config.Server) *engine.Prefixes {
	o := engine.PrefixOptions{Dir: r.prefixFolder(), Space: hub.Space, Log: r.log, Disk: mostPrefixDisk, Memory: r.memory.Budget}
	if s.PrefixDisk != nil {
		o.Disk = int64(*s.PrefixDisk)
	} else if free, _, err := hub.Space(nearest(o.Dir)); err == nil {
		o.Disk = min(o.Disk, free/10)
	}
	if s.PrefixMemory != nil {
		o.Memory = int64(*s.PrefixMemory)
	}
	if o.Disk == 0 {
		o.Dir = ""
	}
	store := engine.OpenPrefixes(o)
	r.memory.Left = divide(store, o.Memory)
	r.memory.Left(r.memory.Budget)
	if store.OnDisk() {
		r.log.Info("storing processed prompts on disk", "folder", o.Dir, "bytes", o.Disk)
	}
	return store
}

// nearest returns a folder, or its nearest parent that exists.
func nearest(dir string) string {
	for {
		if _, _, err := hub.Space(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

type cacheCmd struct {
	List  cacheListCmd  `cmd:"" help:"List the sizes and ages of stored prompts, but never their text."`
	Clear cacheClearCmd `cmd:"" help:"Delete all stored prompts."`
}

type cacheListCmd struct {
	JSON bool `name:"json" help:"Machine-readable output."`
}

// keptRow is a row in the output of cache list. It describes the stored
// prefixes of one model, cache and key.
type keptRow struct {
	Name       string    `json:"name"`
	Tokens     int       `json:"tokens"`
	PageBytes  int64     `json:"page_bytes"`  // bytes of whole pages in packed form
	Points     int       `json:"points"`      // number of positions from which generation can continue
	PointBytes int64     `json:"point_bytes"` // bytes of exact rows and recurrent states at those positions
	Used       time.Time `json:"used"`
}

// Run lists the stored prefixes.
func (c *cacheListCmd) Run(r *run) error {
	list, bytes, err := engine.PrefixFolder(r.prefixFolder()).List()
	if err != nil {
		return err
	}
	rows := make([]keptRow, len(list))
	for i, x := range list {
		rows[i] = keptRow{x.Name, x.Tokens(), x.PageBytes, x.Points, x.PointBytes, x.Used.UTC().Truncate(time.Second)}
	}
	if c.JSON {
		return r.json(struct {
			Folder string    `json:"folder"`
			Bytes  int64     `json:"bytes"`
			Texts  []keptRow `json:"texts"`
		}{r.prefixFolder(), bytes, rows})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintf(r.out, "no prompts are stored in %s\n", r.prefixFolder())
		return err
	}
	t := newTable("GROUP", "TOKENS", "PACKED", "POINTS", "IN POINTS", "LAST USED")
	for _, x := range rows {
		t.add(x.Name, fmt.Sprint(x.Tokens), size(x.PageBytes), fmt.Sprint(x.Points), size(x.PointBytes), ago(x.Used))
	}
	if err := t.write(r.out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.out, "\n%s in %s. The prompts of a group have the same model, cache layout and, if the server has several, API key.\n", size(bytes), r.prefixFolder())
	return err
}

// ago describes roughly how long ago a time was.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	default:
		return fmt.Sprintf("%d days ago", d/(24*time.Hour))
	}
}

type cacheClearCmd struct{}

// Run deletes the stored prefixes.
func (c *cacheClearCmd) Run(r *run) error {
	err := engine.PrefixFolder(r.prefixFolder()).Clear()
	if errors.Is(err, engine.ErrPrefixesBusy) {
		return errors.New("a running Godwit uses the cache; stop it, or send it DELETE /api/prefixes")
	}
	return err
}
