package telemetry

import "github.com/VictoriaMetrics/metrics"

// Metrics is a set of counters, gauges and histograms. Its WritePrometheus
// writes them in the text format of Prometheus. Names start with godwit_.
type Metrics = metrics.Set

// NewMetrics returns a set that also reports the process (memory, CPU time, open
// files) and the Go runtime. Each server has its own set, so tests do not share
// one.
func NewMetrics() *Metrics {
	set := metrics.NewSet()
	set.RegisterMetricsWriter(metrics.WriteProcessMetrics)
	return set
}
