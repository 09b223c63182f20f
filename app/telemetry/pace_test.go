package telemetry

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	var p Pace
	at := time.Unix(1000, 0)
	for _, step := range []struct {
		share float64
		after time.Duration
		want  time.Duration
	}{
		{0.5, 0, 0}, // the progress of an earlier run does not count for this run
		{0.6, 500 * time.Millisecond, 0},
		{0.6, 10 * time.Second, 40 * time.Second},
		{0.9, 40 * time.Second, 10 * time.Second},
		{0.1, 41 * time.Second, 0}, // started again
	} {
		if got := p.Left(step.share, at.Add(step.after)); (got - step.want).Abs() > time.Millisecond {
			t.Errorf("%+v: %v", step, got)
		}
	}
	p = Pace{}
	p.Left(0, at)
	p.Rest(10 * time.Second)
	if got := p.Left(0.5, at.Add(20*time.Second)); (got - 10*time.Second).Abs() > time.Millisecond {
		t.Errorf("after a rest: %v", got)
	}
}
