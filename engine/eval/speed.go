package eval

import (
	"context"
	"fmt"
	"math"

	"godwit/engine"
)

// SpeedResult is the speed and memory of a pair of types.
type SpeedResult struct {
	Depths  []SpeedDepth `json:"depths"`
	Planned int64        `json:"bytes_planned"` // size of the cache in the layout
	InUse   int64        `json:"bytes"`         // size of the cache on the device
	PerTok  int          `json:"bytes_per_token"`
	TypeK   string       `json:"type_k"`
	TypeV   string       `json:"type_v"`
}

// SpeedDepth is the speed at a context length, in tokens per second, with the
// standard error over the runs.
type SpeedDepth struct {
	Depth         int     `json:"depth"`
	Prefill       float64 `json:"prefill_ts"`
	PrefillStderr float64 `json:"prefill_stderr"`
	Decode        float64 `json:"decode_ts"`
	DecodeStderr  float64 `json:"decode_stderr"`
}

// Speed measures reading prompt tokens and generating gen tokens at each depth.
// It makes one untimed run and then the given number of timed runs.
func Speed(ctx context.Context, e *engine.Engine, depths []int, prompt, gen, runs int, progress func(float64)) (SpeedResult, error) {
	r := SpeedResult{Planned: e.KV().Bytes(), PerTok: e.KV().BytesPerToken()}
	r.TypeK, r.TypeV = Types(e)
	use, err := e.Usage(ctx)
	if err != nil {
		return r, err
	}
	r.InUse = use.Memory.Cache
	// The device may round up, so the plan may be off by at most 1 %.
	if off := math.Abs(float64(r.InUse-r.Planned)) / float64(max(r.Planned, 1)); off > 0.01 {
		return r, fmt.Errorf("the cache takes %d bytes, but the plan has %d, which is %.1f %% off", r.InUse, r.Planned, 100*off)
	}
	for i, d := range depths {
		var read, write mean
		for n := range runs + 1 {
			took, err := e.Bench(ctx, engine.BenchTest{Depth: d, Prompt: prompt})
			if err != nil {
				return r, err
			}
			wrote, err := e.Bench(ctx, engine.BenchTest{Depth: d, Gen: gen})
			if err != nil {
				return r, err
			}
			if n > 0 {
				read.add(float64(prompt) / took.Seconds())
				write.add(float64(gen) / wrote.Seconds())
			}
			progress((float64(i) + float64(n+1)/float64(runs+1)) / float64(len(depths)))
		}
		r.Depths = append(r.Depths, SpeedDepth{d, read.value(), read.stderr(), write.value(), write.stderr()})
	}
	return r, nil
}
