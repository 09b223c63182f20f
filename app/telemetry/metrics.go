package telemetry

import "github.com/VictoriaMetrics/metrics"

// Metrics is a set of counters, gauges and histograms, written in the text form
// of Prometheus by its WritePrometheus. Names start with godwit_.
type Metrics = metrics.Set

// NewMetrics returns a set that also reports the process (memory, CPU time, open
// files) and the Go runtime. Each server has its own, so tests do not share one.
func NewMetrics() *Metrics {
	set := metrics.NewSet()
	set.RegisterMetricsWriter(metrics.WriteProcessMetrics)
	return set
}
