package api

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"godwit/engine"
)

// memoryTolerance is how much the numbers of GET /api/memory may differ from the
// system's count, because of pages that are touched but unused and the runtime's
// own tables.
const memoryTolerance = 48 << 20

// The numbers of GET /api/memory add up to the memory that the process has taken
// since the server started. Other tests may have left a server running.
func TestMemoryHeld(t *testing.T) {
	debug.FreeOSMemory()
	before := float64(resident() - heap())
	v := startModel(t, func(o *setup) {
		o.Memory = &engine.Memory{Budget: 1 << 30}
		o.Engine.Memory, o.Engine.Context = o.Memory, 4096
		keeping(t, o, "")
	})
	v.cached(0, strings.Repeat("The sea and the sand. ", 100))
	h := v.ask("GET", "/api/memory", nil).json(t)
	if at(h, "process") == nil {
		t.Log("this system does not say what a process holds")
		return
	}
	sum := func(h object) (n float64) {
		for _, part := range []string{"weights", "cells", "exact", "states"} {
			n += at(h, "models", 0, part).(float64)
		}
		return n - at(h, "models", 0, "untouched").(float64) + at(h, "process", "heap").(float64)
	}
	if held, resident := sum(h), at(h, "process", "resident").(float64)-before; held < resident-memoryTolerance || held > resident+memoryTolerance {
		t.Errorf("%.1f MiB are accounted for, the process has %.1f MiB: %v", held/(1<<20), resident/(1<<20), h)
	}
	if kept := at(h, "prefixes", "bytes").(float64); kept <= 0 || kept > at(h, "prefixes", "limit").(float64) {
		t.Errorf("kept prefixes: %v", h["prefixes"])
	}
	if h["budget"] != float64(1<<30) || h["free"].(float64) >= 1<<30 {
		t.Errorf("budget %v, free %v", h["budget"], h["free"])
	}
	rows := string(v.ask("GET", "/metrics", nil).body)
	for _, of := range []string{"weights", "cells", "exact", "states", "scratch", "prefixes", "other_processes"} {
		if !strings.Contains(rows, `godwit_memory_bytes{of="`+of+`"} `) {
			t.Errorf("/metrics has no row for %s", of)
		}
	}
}

// With several keys, a client cannot see the memory that others use.
func TestMemoryKeys(t *testing.T) {
	v := startModel(t, func(o *setup) {
		o.Settings.Server.APIKey = []string{"one-key", "two-key"}
		keeping(t, o, "")
	})
	key := withHeader("Authorization", "Bearer one-key")
	v.cached(0, strings.Repeat("The sea and the sand. ", 30), key)
	h := v.ask("GET", "/api/memory", nil, key).json(t)
	if h["prefixes"] != nil || h["process"] != nil || at(h, "models", 0, "untouched") != 0.0 {
		t.Errorf("%v", h)
	}
}

// A request that exceeds the queue is rejected with 503, a retry time, and the
// error form of its dialect.
func TestQueueFull(t *testing.T) {
	v := startModel(t, func(o *setup) {
		o.Engine.Parallel, o.Engine.Queue = 1, 1
		o.Engine.Observe = func(engine.Step) { time.Sleep(20 * time.Millisecond) }
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{}, 2)
	for n := range 2 {
		go func() {
			defer func() { ended <- struct{}{} }()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/v1/completions", strings.NewReader(`{"prompt": "Hello", "max_tokens": 400, "ignore_eos": true}`))
			if err != nil {
				t.Error(err)
				return
			}
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		}()
		wait(t, "a request more", func() bool {
			u := v.pool.Usage()
			return u.Busy+u.Queued == n+1
		})
	}
	for i, d := range prefixDialects {
		r := v.ask("POST", d.path, d.body("Hello"))
		if r.status != 503 || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v", d.path, r.status, r.header)
		}
		where := []any{"error", "message"}
		if text, _ := at(r.json(t), where...).(string); !strings.Contains(text, "wait") {
			t.Errorf("dialect %d: %s", i, r.body)
		}
	}
	r := v.ask("POST", "/api/chat", object{"model": "m", "messages": user("Hello"), "stream": false})
	if text, _ := r.json(t)["error"].(string); r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(text, "wait") {
		t.Errorf("Ollama: %d %v %s", r.status, r.header, r.body)
	}
	stop()
	<-ended
	<-ended
}
