package telemetry

import "time"

// Pace estimates how long something takes that reports the share it has done. The
// first report counts as the start: what was done before took other time.
type Pace struct {
	start time.Time
	from  float64
}

// Left is the time until the share is 1; 0 while it is unknown.
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

// Rest moves the start by a time in which nothing was done.
func (p *Pace) Rest(d time.Duration) {
	if !p.start.IsZero() {
		p.start = p.start.Add(d)
	}
}
