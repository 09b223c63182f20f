package api

import (
	"context"
	"testing"
	"time"

	"godwit/engine"
)

// Endpoints that describe the server respond during a long step of the device.
func TestViewDuringStep(t *testing.T) {
	begun, release := make(chan struct{}, 1), make(chan struct{})
	v := startModel(t, func(o *setup) {
		o.Engine.Parallel = 1
		o.Engine.Observe = func(engine.Step) {
			select {
			case begun <- struct{}{}:
			default:
			}
			<-release
		}
	})
	defer close(release)
	wait(t, "health", func() bool { return v.ask("GET", "/health", nil).status == 200 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = v.try(ctx, "POST", "/completion", object{"prompt": "a b c", "n_predict": 4}) }()
	<-begun
	for _, path := range []string{"/health", "/v1/health", "/slots", "/metrics", "/props", "/api/ps", "/api/tags", "/v1/models", "/models", "/api/v0/models"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, err := v.try(ctx, "GET", path, nil)
		cancel()
		if err != nil || r.status != 200 {
			t.Errorf("%s during a step: %d, %v", path, r.status, err)
		}
		if path != "/slots" {
			continue
		}
		if list := r.maybe(); at(list, 1) != nil || at(list, 0, "is_processing") != true || at(list, 0, "n_prompt_tokens") == 0.0 {
			t.Errorf("slots during a step: %s", r.body)
		}
	}
	if r := v.ask("GET", "/slots?fail_on_no_slot=1", nil); r.status != 503 || at(r.json(t), "error", "type") != "unavailable_error" {
		t.Errorf("no free slot: %d %s", r.status, r.body)
	}
}
