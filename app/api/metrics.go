package api

import (
	"fmt"

	"github.com/VictoriaMetrics/metrics"

	"godwit/engine"
)

// counters are the metrics of requests and of the device.
type counters struct {
	set                          *metrics.Set
	prompt, cached, generated    *metrics.Counter
	steps, decodeRows, fillRows  *metrics.Counter
	refused                      *metrics.Counter // tokens that a grammar rejected although its mask had allowed them
	drafted, accepted            *metrics.Counter // proposed tokens; accepted tokens
	promptSeconds, decodeSeconds *metrics.FloatCounter
	step, first                  *metrics.Histogram
}

func (c *counters) init(set *metrics.Set) {
	c.set = set
	c.prompt = c.set.NewCounter("godwit_prompt_tokens_total")
	c.cached = c.set.NewCounter("godwit_prompt_tokens_cached_total")
	c.generated = c.set.NewCounter("godwit_generated_tokens_total")
	c.steps = c.set.NewCounter("godwit_steps_total")
	c.decodeRows = c.set.NewCounter("godwit_step_rows_total{kind=\"decode\"}")
	c.fillRows = c.set.NewCounter("godwit_step_rows_total{kind=\"prefill\"}")
	c.refused = c.set.NewCounter("godwit_masked_tokens_refused_total")
	c.drafted = c.set.NewCounter("godwit_draft_tokens_total")
	c.accepted = c.set.NewCounter("godwit_draft_tokens_accepted_total")
	c.promptSeconds = c.set.NewFloatCounter("godwit_prompt_seconds_total")
	c.decodeSeconds = c.set.NewFloatCounter("godwit_generation_seconds_total")
	c.step = c.set.NewHistogram("godwit_step_seconds")
	c.first = c.set.NewHistogram("godwit_first_token_seconds")
}

// observe counts a step of the device. It runs on the device's goroutine.
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
