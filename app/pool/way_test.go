package pool

import (
	"testing"
	"time"

	"godwit/app/hub"
)

// A load that waited for a model in use, and now takes the memory, counts as a model in use:
// another load that lacks memory waits for it and does not fail.
func TestMakeWay(t *testing.T) {
	p := start(t, nil)
	m, err := p.Find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := p.Acquire(t.Context(), m, Terms{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := &entry{info: hub.Model{Path: "first"}, state: Loading}, &entry{info: hub.Model{Path: "second"}, state: Loading}
	p.mu.Lock()
	p.entries["first"], p.entries["second"] = first, second
	p.mu.Unlock()
	done := make(chan bool)
	go func() {
		gone, _ := p.makeWay(t.Context(), first, nil)
		done <- gone
	}()
	wait(t, "the first load waits", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return first.waits
	})
	lease.Release()
	if !<-done {
		t.Error("the idle model was not unloaded")
	}
	late := make(chan time.Time, 1)
	late <- time.Now()
	if gone, held := p.makeWay(t.Context(), second, late); gone || !held {
		t.Errorf("gone %v, held %v while the first load takes the memory", gone, held)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entries, "first")
	delete(p.entries, "second")
}
