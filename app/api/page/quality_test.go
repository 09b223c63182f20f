package page

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
)

// stepLab reports one step for each value that it receives. An error ends the measurement.
type stepLab struct {
	steps chan error
	known Quality
}

func (l *stepLab) Known(hub.Model, *config.Engine) (*Quality, error) { return &l.known, nil }

func (l *stepLab) Recommend(ctx context.Context, _ hub.Model, _ *config.Engine, tell func(Step)) (*Quality, error) {
	for {
		select {
		case err, more := <-l.steps:
			if err != nil || !more {
				return &l.known, err
			}
			tell(Step{Doing: "agree f16", Share: 0.5, Left: time.Minute})
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *stepLab) open(t *testing.T, model bool) *desk {
	return open(t, newFolder(t, model), func(o *Options, _ *hub.Options) { o.Lab = l })
}

// told reads events until a measurement has the given state.
func (d *desk) told(state string, first func()) (m measuring) {
	d.t.Helper()
	d.events("/app/events", func(name, data string) bool {
		if name == "models" && first != nil {
			first()
			first = nil
		}
		if name != "quality" {
			return true
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			d.t.Fatal(err)
		}
		return m.State != state
	})
	return m
}

func TestQuality(t *testing.T) {
	kld := 0.25
	lab := &stepLab{steps: make(chan error), known: Quality{Pairs: []Measured{{K: "f16", V: "f16", KLD: &kld}}}}
	d := lab.open(t, true)
	type answer struct {
		Quality
		Measuring *measuring
	}
	begin := func() { ask[any](d, "POST", "/app/quality", map[string]string{"model": modelName}) }

	// The model is unloaded, so that it is not in memory twice.
	m, err := d.modelFor(modelName)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := d.models.Acquire(t.Context(), m, pool.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := d.refused("POST", "/app/quality", map[string]string{"model": modelName}); status != http.StatusConflict {
		t.Errorf("while it answers: %d %s", status, text)
	}
	lease.Release()
	seen := d.told("running", func() { begin(); lab.steps <- nil })
	if seen.Doing != "agree f16" || seen.Share != 0.5 || seen.Left != 60 {
		t.Errorf("told %+v", seen)
	}
	if s := d.models.Standing(m.Path).State; s == pool.Loaded {
		t.Errorf("the model is %v while it is measured", s)
	}
	got := ask[answer](d, "GET", "/app/quality?model="+modelName, nil)
	if got.Measuring == nil || got.Measuring.Share != 0.5 || len(got.Pairs) != 1 || *got.Pairs[0].KLD != kld {
		t.Errorf("known %+v", got)
	}
	if status, text := d.refused("POST", "/app/quality", map[string]string{"model": modelName}); status != http.StatusConflict || !strings.Contains(text, "being measured") {
		t.Errorf("a second one: %d %s", status, text)
	}
	d.told("done", func() { close(lab.steps) })

	lab.steps = make(chan error)
	begin()
	if m := d.told("failed", func() { lab.steps <- errors.New("layer 3: NaN") }); m.Error != "layer 3: NaN" {
		t.Errorf("failed with %+v", m)
	}
	begin()
	d.told("cancelled", func() { ask[any](d, "POST", "/app/quality/cancel", map[string]string{}) })
	if got := ask[answer](d, "GET", "/app/quality?model="+modelName, nil); got.Measuring != nil {
		t.Errorf("still measuring: %+v", got.Measuring)
	}
	begin() // ends with the page
}

// slowModels delays an unload until the test allows it.
type slowModels struct {
	models
	asked, hold chan struct{}
}

func (m *slowModels) Unload(path string) error {
	close(m.asked)
	<-m.hold
	return m.models.Unload(path)
}

// While the model is being unloaded, the page can still query the state.
func TestQualityWhileUnloading(t *testing.T) {
	lab := &stepLab{steps: make(chan error)}
	d := lab.open(t, true)
	slow := &slowModels{d.models, make(chan struct{}), make(chan struct{})}
	d.models = slow
	started := make(chan int, 1)
	go func() {
		status, _ := d.do("POST", "/app/quality", map[string]string{"model": modelName})
		started <- status
	}()
	<-slow.asked
	got := ask[struct{ Measuring *measuring }](d, "GET", "/app/quality?model="+modelName, nil)
	if got.Measuring == nil || got.Measuring.State != "running" {
		t.Errorf("while it is unloaded: %+v", got.Measuring)
	}
	if status, text := d.refused("POST", "/app/quality", map[string]string{"model": modelName}); status != http.StatusConflict {
		t.Errorf("a second one: %d %s", status, text)
	}
	close(slow.hold)
	if status := <-started; status/100 != 2 {
		t.Errorf("started with %d", status)
	}
}

// A page that is closing rejects what it can no longer start.
func TestClosing(t *testing.T) {
	d := (&stepLab{}).open(t, true)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]map[string]string{
		"/app/quality":                         {"model": modelName},
		"/app/downloads":                       {"ref": "birds/godwit-GGUF"},
		"/app/models/" + modelName + "/load":   {},
		"/app/models/" + modelName + "/reload": {},
	} {
		if status, text := d.refused("POST", path, body); status != http.StatusServiceUnavailable || !strings.Contains(text, errClosing.Error()) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if got := ask[struct{ Measuring *measuring }](d, "GET", "/app/quality?model="+modelName, nil); got.Measuring != nil {
		t.Errorf("measuring %+v", got.Measuring)
	}
}

func TestNoLab(t *testing.T) {
	d := open(t, newFolder(t, false), nil)
	if status, _ := d.refused("GET", "/app/quality?model=x", nil); status != http.StatusNotImplemented {
		t.Errorf("status %d", status)
	}
	lab := &stepLab{}
	if status, _ := lab.open(t, false).refused("GET", "/app/quality?model=x", nil); status != http.StatusNotFound {
		t.Errorf("an unknown model: status %d", status)
	}
}
