package api

import (
	"context"
	"net/http"
	"strconv"

	"godwit/app/api/wire"
	"godwit/app/pool"
	"godwit/engine"
)

// kv answers GET /api/kv. It describes what each layer of the loaded model
// stores, as read back from the device's memory.
func (s *Server) kv(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("model")
	if !s.pool.Only() {
		m, err := s.pool.Find(name)
		if err != nil {
			return err
		}
		if s.pool.Standing(m.Path).State != pool.Loaded {
			e := wire.Fault(http.StatusNotFound, wire.NotFound, "model %s is not loaded; GET /api/kv/plan shows what a load would store", m.Name)
			e.Code = "model_not_loaded"
			return e
		}
	}
	return service{s}.Use(r, wire.Head{Model: name, AsLoaded: true}, func(ctx context.Context, m *wire.Model) error {
		plan, err := m.Engine.Plan(ctx, m.Name)
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, plan)
		return nil
	})
}

// keptPrefixes describes the stored prefixes of all models.
type keptPrefixes struct {
	Memory     int64       `json:"memory_bytes"`
	MostMemory int64       `json:"memory_limit"`
	Disk       int64       `json:"disk_bytes"`
	MostDisk   int64       `json:"disk_limit"`
	Texts      []keptTexts `json:"texts"`
}

// keptTexts describes the stored prefixes of one model, cache layout and key.
type keptTexts struct {
	Name       string `json:"name"`
	Tokens     int    `json:"tokens"`
	PageBytes  int64  `json:"page_bytes"`
	Points     int    `json:"points"`
	PointBytes int64  `json:"point_bytes"`
	Used       int64  `json:"used"` // seconds since 1970
}

// prefixes answers GET /api/prefixes.
func (s *Server) prefixes(w http.ResponseWriter, _ *http.Request) error {
	k := keptPrefixes{Texts: []keptTexts{}}
	p := s.o.Prefixes
	if p != nil && (!s.guard.several() || s.o.Settings.Server.SharePrefixes) { // if several API keys are in use, one client could learn about another client's texts
		u := p.Usage()
		k.Memory, k.MostMemory, k.Disk, k.MostDisk = u.Memory, u.MostMemory, u.Disk, u.MostDisk
		for _, c := range p.List() {
			k.Texts = append(k.Texts, keptTexts{c.Name, c.Tokens(), c.PageBytes, c.Points, c.PointBytes, c.Used.Unix()})
		}
	}
	wire.WriteJSON(w, http.StatusOK, k)
	return nil
}

// clearPrefixes answers DELETE /api/prefixes.
func (s *Server) clearPrefixes(w http.ResponseWriter, r *http.Request) error {
	if s.o.Prefixes != nil {
		if err := s.o.Prefixes.Clear(); err != nil {
			return err
		}
	}
	return s.prefixes(w, r)
}

// maxContext limits the context of a plan.
const maxContext = 1 << 24

// kvPlan answers GET /api/kv/plan. It describes what each layer would store
// after a load.
func (s *Server) kvPlan(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	m, err := s.pool.Find(q.Get("model"))
	if err != nil {
		return err
	}
	o, err := s.pool.Options(m.Path)
	if err != nil {
		return err
	}
	if ctx := q.Get("ctx"); ctx != "" {
		n, err := strconv.Atoi(ctx)
		if err != nil || n < 1 || n > maxContext {
			return wire.Bad("ctx", "%.64q: want a whole number from 1 to %d", ctx, maxContext)
		}
		o.Context, o.Cells = n, 0
	}
	for _, side := range []struct {
		name string
		read func(string) (engine.CacheWant, error)
	}{
		{"k", func(t string) (engine.CacheWant, error) { return engine.ParseCacheTypes(t, "") }},
		{"v", func(t string) (engine.CacheWant, error) { return engine.ParseCacheTypes("", t) }},
	} {
		text := q.Get(side.name)
		if text == "" {
			continue
		}
		want, err := side.read(text)
		if err != nil {
			return wire.Bad(side.name, "%v", err)
		}
		if want.K != nil {
			o.Want.K = want.K
		}
		if want.V != nil {
			o.Want.V = want.V
		}
	}
	plan, err := engine.PlanFile(m.Path, m.Name, o)
	if err != nil {
		return wire.Bad("", "%v", err)
	}
	wire.WriteJSON(w, http.StatusOK, plan)
	return nil
}
