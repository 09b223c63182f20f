package page

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// startersFile lists recommended models by the memory of a machine. It is
// maintained by hand. Its sizes and contexts were correct when it was written.
// A download uses the size and digest from the hub.
//
//go:embed starters.json
var startersFile []byte

// starter is a recommended first model.
type starter struct {
	Ref         string  `json:"ref"`
	Name        string  `json:"name"`
	Note        string  `json:"note"`
	Size        int64   `json:"size"`
	Context     int     `json:"context"`
	Active      int64   `json:"active,omitempty"` // bytes of weights that are read for each token; 0 if all are read
	Recommended bool    `json:"recommended,omitempty"`
	Fit         string  `json:"fit" ts:"'fits' | 'tight' | 'large' | 'unknown'"`
	Speed       float64 `json:"tok_s"` // expected tokens per second; 0 if unknown
}

// starterGroup lists recommended models for machines with similar memory.
type starterGroup struct {
	Memory int64     `json:"memory_gib"`
	Models []starter `json:"models"`
}

// demo is a model that is small enough to try the app immediately.
var demo = starter{Ref: "demo", Name: "SmolLM2 135M", Note: "For trying the app: fast, but often wrong.", Size: 98362432, Context: 8192}

// efficiency is the share of the memory bandwidth that is reached while weights
// are read.
const efficiency = 0.5

// firstSteps is the content of a page without models.
type firstSteps struct {
	Machine machine   `json:"machine"`
	Models  []starter `json:"models"`
	Demo    starter   `json:"demo"`
}

// bandwidth is the measured memory bandwidth.
type bandwidth struct {
	once  sync.Once
	bytes float64 // bytes per second
}

// starters returns the models that suit this machine.
func (p *Page) starters(http.ResponseWriter, *http.Request) (any, error) {
	m := p.machine()
	speed := 0.0 // the bandwidth of a GPU is unknown
	if m.Backend == "cpu" {
		p.bandwidth.once.Do(func() { p.bandwidth.bytes = measureBandwidth(max(m.Threads, 1)) })
		speed = p.bandwidth.bytes
	}
	return firstStepsOn(m, speed)
}

// firstStepsOn picks the starters for a machine. bandwidth is in bytes per second,
// or 0 if unknown.
func firstStepsOn(m machine, bandwidth float64) (*firstSteps, error) {
	var groups []starterGroup
	if err := json.Unmarshal(startersFile, &groups); err != nil {
		return nil, err
	}
	pick := groups[0]
	for _, g := range groups[1:] {
		if 10*m.Memory >= 9*(g.Memory<<30) { // the system reserves a part of the memory
			pick = g
		}
	}
	out := &firstSteps{Machine: m, Demo: demo, Models: pick.Models}
	for _, s := range []*starter{&out.Demo, &out.Models[0], &out.Models[1], &out.Models[2]} {
		s.Fit = fit(s.Size, m)
		read := s.Active
		if read == 0 {
			read = s.Size
		}
		s.Speed = efficiency * bandwidth / float64(read)
	}
	return out, nil
}

// measureBandwidth reads memory with several threads at once and returns the
// bytes per second. For each thread, only the fastest of many short pieces
// counts, so that other work on the machine has little effect.
func measureBandwidth(threads int) float64 {
	const piece = 1 << 20 / 8
	pieces := max(192/threads, 4) // the blocks of all threads together are larger than most processor caches
	best := make([]time.Duration, threads)
	sums := make([]uint64, threads)
	var work sync.WaitGroup
	for i := range threads {
		work.Go(func() {
			block := make([]uint64, pieces*piece)
			for k := range block {
				block[k] = uint64(k) // written, because otherwise all pages would share the zero page
			}
			for at := 0; at < len(block); at += piece {
				start := time.Now()
				sums[i] += sum(block[at : at+piece])
				if span := time.Since(start); best[i] == 0 || span < best[i] {
					best[i] = span
				}
			}
		})
	}
	work.Wait()
	total := 0.0
	for _, span := range best {
		total += 8 * piece / max(span.Seconds(), 1e-6)
	}
	return total
}

// sum adds numbers in four independent chains, so that memory is the bottleneck.
func sum(list []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(list) >= 4; list = list[4:] {
		a, b, c, d = a+list[0], b+list[1], c+list[2], d+list[3]
	}
	return a + b + c + d
}
