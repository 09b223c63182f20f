package gpu

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/llm"
	"godwit/shaders"
)

// mostTop is the maximum number of largest logits of a row that the device can
// find.
const mostTop = 64

// pairBytes is the size of a logit with its token.
const pairBytes = 8

// top is the search for the largest logits. It runs in stages. Each stage finds
// the largest logits in chunks of the previous stage's output, and writes to
// its own buffer.
type top struct {
	list []int32 // logit and token pairs of all rows, on the host
	out  map[int]place
}

// addTop adds the launches that find the largest logits of each output row,
// once for the single largest and once for mostTop of them. Every stage keeps
// that many per chunk.
func (c *compiler) addTop() error {
	p := c.p
	if p.out.Rows != graph.OutputRows {
		return nil
	}
	p.top.list, p.top.out = make([]int32, p.outputs()*mostTop*pairBytes/4), map[int]place{}
	for _, count := range []int{1, mostTop} {
		from, width, listed := c.value(p.plan.Output), p.out.Width, uint32(0)
		for {
			stretches := (width + shaders.TopStretch - 1) / shaders.TopStretch
			b, err := p.alloc(int64(p.outputs()*stretches*count*pairBytes), "largest logits")
			if err != nil {
				return err
			}
			to := place{Bind{b, 0}, b.Size()}
			q := &shaders.TopParams{Width: uint32(width), Count: uint32(count), Listed: listed}
			err = c.add("top", nil, shaders.Bytes(q), []place{from, to}, func(s *shape) [3]uint32 {
				if s.top != count {
					return [3]uint32{}
				}
				return [3]uint32{uint32(stretches), uint32(s.outputs), 1}
			})
			if err != nil {
				return err
			}
			if stretches == 1 {
				p.top.out[count] = to
				break
			}
			from, width, listed = to, stretches*count, 1
		}
	}
	return nil
}

// topOf returns how many of the largest logits the device finds for each row of
// a batch: 1, mostTop, or 0 if all logits are needed.
func (p *program) topOf(b *llm.Batch) int {
	if len(b.Top) == 0 || p.top.out == nil {
		return 0
	}
	most := 1
	for _, n := range b.Top {
		if n == 0 || n > mostTop {
			return 0
		}
		if n > 1 {
			most = mostTop
		}
	}
	return most
}

// downloadTop waits for the device. It writes the largest logits to their rows
// and minus infinity to all other positions.
func (p *program) downloadTop(s *shape, rows int, results []int32, logits []float32) error {
	list := p.top.list[:rows*s.top*pairBytes/4]
	from := p.top.out[s.top]
	if err := p.dev.Download(bytesOf(list), from.bind.Buffer, from.bind.Offset); err != nil {
		return err
	}
	w := p.out.Width
	for i := range rows {
		to := i
		if results != nil {
			to = int(results[i])
		}
		row := logits[to*w : (to+1)*w]
		row[0] = float32(math.Inf(-1))
		for n := 1; n < w; n *= 2 {
			copy(row[n:], row[:n])
		}
		for k := range s.top {
			pair := list[2*(i*s.top+k):]
			if t := uint32(pair[1]); t < uint32(w) {
				row[t] = math.Float32frombits(uint32(pair[0]))
			}
		}
	}
	return nil
}
