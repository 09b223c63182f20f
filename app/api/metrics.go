package api

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"godwit/engine"
)

// counters are what /metrics shows of requests and of the device.
type counters struct {
	set                          *metrics.Set
	prompt, cached, generated    *metrics.Counter
	steps, decodeRows, fillRows  *metrics.Counter
	refused                      *metrics.Counter // tokens that a grammar refused after its mask had allowed them
	promptSeconds, decodeSeconds *metrics.FloatCounter
	step, first                  *metrics.Histogram
}

func (c *counters) init(s *Server) {
	c.set = s.metrics
	c.prompt = c.set.NewCounter("godwit_prompt_tokens_total")
	c.cached = c.set.NewCounter("godwit_prompt_tokens_cached_total")
	c.generated = c.set.NewCounter("godwit_generated_tokens_total")
	c.steps = c.set.NewCounter("godwit_steps_total")
	c.decodeRows = c.set.NewCounter("godwit_step_rows_total{kind=\"decode\"}")
	c.fillRows = c.set.NewCounter("godwit_step_rows_total{kind=\"prefill\"}")
	c.refused = c.set.NewCounter("godwit_masked_tokens_refused_total")
	c.promptSeconds = c.set.NewFloatCounter("godwit_prompt_seconds_total")
	c.decodeSeconds = c.set.NewFloatCounter("godwit_generation_seconds_total")
	c.step = c.set.NewHistogram("godwit_step_seconds")
	c.first = c.set.NewHistogram("godwit_first_token_seconds")
}

// observe counts a step of the device; it runs on the device's goroutine.
func (c *counters) observe(st engine.Step) {
	c.steps.Inc()
	c.decodeRows.Add(st.Decode)
	c.fillRows.Add(st.Prefill)
	c.step.Update(st.Took.Seconds())
}

// request counts an answered request.
func (c *counters) request(endpoint string, status int) {
	c.set.GetOrCreateCounter(fmt.Sprintf("godwit_requests_total{endpoint=%q,status=\"%d\"}", endpoint, status)).Inc()
}

// count adds up a finished generation.
func (s *Server) count(r *engine.Result) {
	c := &s.counters
	c.prompt.Add(r.Prompt)
	c.cached.Add(r.Cached)
	c.generated.Add(r.Completion)
	c.promptSeconds.Add(r.Prefill.Seconds())
	c.decodeSeconds.Add(r.Decode.Seconds())
	c.first.Update((r.Waited + r.Prefill).Seconds())
	s.log.Debug("answered", "tokens", r.Completion, "ms", (r.Prefill + r.Decode).Round(time.Millisecond).Milliseconds())
}
