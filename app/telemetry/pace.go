package telemetry

import "time"

// Pace estimates the remaining time of work that reports its progress as a share.
// The first report counts as the start, because earlier work does not count.
type Pace struct {
	start time.Time
	from  float64
}

// Left returns the time until the share is 1, or 0 if unknown.
func (p *Pace) Left(share float64, now time.Time) time.Duration {
	if p.start.IsZero() || share < p.from {
		p.start, p.from = now, share
	}
	done, spent := share-p.from, now.Sub(p.start)
	if done <= 0 || spent < time.Second {
		return 0
	}
	return time.Duration(float64(spent) / done * (1 - share))
}

// Rest moves the start by a period without work.
func (p *Pace) Rest(d time.Duration) {
	if !p.start.IsZero() {
		p.start = p.start.Add(d)
	}
}
