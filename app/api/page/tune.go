package page

import (
	"net/http"

	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/tune"
)

// abilities lists what a model can do, from the metadata and the template of its file.
func abilities(m *hub.Model) (list []string) {
	embeds := pool.Embeds(m)
	for _, x := range []struct {
		name string
		can  bool
	}{
		{"tools", m.Tools && !embeds},
		{"thinking", m.Thinking && !embeds},
		{"vision", m.Vision},
		{"infill", m.Infill && !embeds},
		{"embedding", embeds},
	} {
		if x.can {
			list = append(list, x.name)
		}
	}
	return list
}

// tuneModel replaces the settings of a model.
func (p *Page) tuneModel(w http.ResponseWriter, r *http.Request) (any, error) {
	m, err := p.named(r)
	if err != nil {
		return nil, err
	}
	var own tune.Settings
	if err := read(w, r, smallBody, &own); err != nil {
		return nil, err
	}
	if p.o.Tuned == nil {
		return nil, refuse(http.StatusNotImplemented, "not_kept", textNotTuned)
	}
	if err := own.Check(); err != nil {
		return nil, err
	}
	if err := p.loads(&own); err != nil {
		return nil, err
	}
	if err := p.o.Tuned.Put(r.Context(), m.Path, own); err != nil {
		return nil, err
	}
	p.modelsChanged()
	now := p.standing(&m)
	now.Room = roomOf(&now, p.machine())
	return now, nil
}

// loads rejects settings with which no model can be loaded, unless the settings
// for all models already prevent that.
func (p *Page) loads(own *tune.Settings) error {
	s, err := p.o.Settings.Settings()
	if err != nil {
		return err
	}
	e := s.Engine
	own.Over(&e)
	if _, err := p.o.Engine(&e); err != nil {
		if _, was := p.o.Engine(&s.Engine); was == nil {
			return bad("%v", err)
		}
	}
	return nil
}
