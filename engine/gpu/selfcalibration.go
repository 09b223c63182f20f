package gpu

import (
	"fmt"

	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// selfCalibration holds the key calibration of every conversation in one layer.
// It is measured on the host. The resulting channels are on the device, as
// [sequence][KV head][value].
type selfCalibration struct {
	list       []layout.SelfCalibration // by sequence and KV head
	mean, gain place
	heads, dim int
}

// each returns the number of channels of a sequence.
func (o *selfCalibration) each() int { return o.heads * o.dim }

// newSelfCalibration allocates the calibrations of a layer. Channels that have
// not been measured yet leave keys unchanged.
func (p *program) newSelfCalibration(y *layout.Layer) (*selfCalibration, error) {
	seqs := max(p.layout.Settings.Seqs, 1)
	o := &selfCalibration{heads: y.KVHeads, dim: y.K.HeadDim}
	for range seqs * o.heads {
		o.list = append(o.list, layout.NewSelfCalibration(o.dim, y.Rotary, p.layout.Settings.Span))
	}
	p.used.Cache += int64(y.K.SelfBytes * seqs)
	ones := make([]float32, seqs*o.each())
	for i := range ones {
		ones[i] = 1
	}
	size := int64(4 * len(ones))
	for _, to := range []*place{&o.mean, &o.gain} {
		b, err := p.alloc(size, "channels of conversations")
		if err != nil {
			return nil, err
		}
		*to = place{Bind{b, 0}, size}
	}
	return o, p.dev.Upload(o.gain.bind.Buffer, 0, bytesOf(ones))
}

// of returns the calibration of a sequence's KV heads.
func (o *selfCalibration) of(seq int32) []layout.SelfCalibration {
	return o.list[int(seq)*o.heads:][:o.heads]
}

// upload uploads the channels of a sequence once they are known.
func (p *program) upload(o *selfCalibration, seq int32) error {
	for h := range o.heads {
		c := o.of(seq)[h].Channels()
		if c == nil {
			return nil
		}
		at := int64(4 * (int(seq)*o.each() + h*o.dim))
		if err := p.dev.Upload(o.mean.bind.Buffer, at, bytesOf(c.Mean)); err != nil {
			return err
		}
		if err := p.dev.Upload(o.gain.bind.Buffer, at, bytesOf(c.Gain)); err != nil {
			return err
		}
	}
	return nil
}

// measures reports whether a batch has rows from which a conversation
// calibrates its keys.
func (p *program) measures(b *llm.Batch) bool {
	if !p.calibrates {
		return false
	}
	for i := range b.Spans {
		if measuring(&b.Spans[i]) {
			return true
		}
	}
	return false
}

// measuring reports whether a span has rows that calibrate its conversation.
func measuring(s *llm.Span) bool { return s.Len-s.Rows < layout.SelfRows }

// measure copies the keys and queries of the calibrating rows to the host,
// after the layer has written its cells and before packed pages are read. Only
// here does a batch wait for the device before its end, and only at the first
// positions of a conversation.
func (c *compiler) measure(t *attention) {
	if t.cache.self == nil || t.node.In[1] == graph.None {
		return
	}
	p := c.p
	query, key := c.value(t.node.In[0]), c.value(t.node.In[1])
	p.calibrates = true
	p.launches = append(p.launches, launch{host: func(b *llm.Batch) error {
		for i := range b.Spans {
			if s := &b.Spans[i]; measuring(s) {
				if err := p.measureSpan(t, s, query, key); err != nil {
					return fmt.Errorf("calibration of layer %d: %w", t.Layer, err)
				}
			}
		}
		return nil
	}})
}

func (p *program) measureSpan(t *attention, s *llm.Span, query, key place) error {
	o, first := t.cache.self, s.Len-s.Rows
	rows := min(s.Rows, layout.SelfRows-first)
	kw, qw := o.heads*o.dim, t.Heads*o.dim
	if len(p.measured) < rows*(kw+qw) {
		p.measured = make([]float32, layout.SelfRows*(kw+qw))
	}
	k, q := p.measured[:rows*kw], p.measured[rows*kw:][:rows*qw]
	if err := p.dev.Download(bytesOf(k), key.bind.Buffer, key.bind.Offset+int64(4*s.First*kw)); err != nil {
		return err
	}
	if err := p.dev.Download(bytesOf(q), query.bind.Buffer, query.bind.Offset+int64(4*s.First*qw)); err != nil {
		return err
	}
	group := t.Heads / o.heads * o.dim
	for h := range o.heads {
		one := &o.of(int32(s.Seq))[h]
		for r := range rows {
			one.Add(first+r, k[r*kw+h*o.dim:][:o.dim], q[r*qw+h*group:][:group])
		}
	}
	if first+rows < layout.SelfRows {
		return nil
	}
	return p.upload(o, int32(s.Seq))
}

// measuredRow calls f for each KV head of a layer of a sequence, with the
// head's calibration and its part of a row.
func (p *program) measuredRow(layer int, s kv.Side, row []byte, seq int32, f func(o *layout.SelfCalibration, part []byte) error) (*selfCalibration, error) {
	n := p.RowBytes(layer, s, layout.Measured)
	if n == 0 {
		return nil, fmt.Errorf("gpu: layer %d has no calibrations of conversations", layer)
	}
	o := p.cache.layers[layer].self
	for h := range o.heads {
		if err := f(&o.of(seq)[h], row[h*n/o.heads:(h+1)*n/o.heads]); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// copyMeasured copies the calibrations of one sequence to another.
func (p *program) copyMeasured(group int, dst, src int32, n int) error {
	for _, l := range p.cache.groups[group] {
		for i := range int32(n) {
			if l.self == nil {
				continue
			}
			to, from := l.self.of(dst+i), l.self.of(src+i)
			for h := range to {
				to[h].Copy(&from[h])
			}
			if err := p.upload(l.self, dst+i); err != nil {
				return err
			}
		}
	}
	return nil
}
