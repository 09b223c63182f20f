package api

import (
	"fmt"
	"io"
)

// writeMetrics writes Godwit's metrics. For existing dashboards, it also writes
// the same values under llama-server's names.
func (s *Server) writeMetrics(w io.Writer) {
	s.metrics.WritePrometheus(w)
	c := &s.counters
	for _, m := range []struct {
		name, kind string
		value      float64
	}{
		{"prompt_tokens_total", "counter", float64(c.prompt.Get())},
		{"prompt_seconds_total", "counter", c.promptSeconds.Get()},
		{"tokens_predicted_total", "counter", float64(c.generated.Get())},
		{"tokens_predicted_seconds_total", "counter", c.decodeSeconds.Get()},
		{"n_decode_total", "counter", float64(c.steps.Get())},
	} {
		fmt.Fprintf(w, "# TYPE llamacpp:%[1]s %[2]s\nllamacpp:%[1]s %[3]g\n", m.name, m.kind, m.value)
	}
	use := s.pool.Usage()
	for _, m := range []struct {
		name  string
		value float64
	}{
		{"requests_processing", float64(use.Busy)},
		{"requests_deferred", float64(use.Queued)},
		{"kv_cache_tokens", float64(use.Tokens)},
		{"kv_cache_usage_ratio", use.Share()},
	} {
		fmt.Fprintf(w, "# TYPE llamacpp:%[1]s gauge\nllamacpp:%[1]s %[2]g\n", m.name, m.value)
	}
	fmt.Fprintf(w, "# TYPE godwit_cells gauge\ngodwit_cells{state=\"free\"} %d\ngodwit_cells{state=\"used\"} %d\n", use.Free, use.Cells-use.Free)
	fmt.Fprintf(w, "# TYPE godwit_sparse_v_rows gauge\ngodwit_sparse_v_rows{state=\"considered\"} %d\ngodwit_sparse_v_rows{state=\"skipped\"} %d\n", use.Considered, use.Skipped)
	fmt.Fprintf(w, "# TYPE godwit_kv_saturated_blocks gauge\ngodwit_kv_saturated_blocks %d\n", use.Saturated)
	s.writeMemory(w)
	fmt.Fprintf(w, "# TYPE godwit_models_loaded gauge\ngodwit_models_loaded %d\n", use.Models)
}
