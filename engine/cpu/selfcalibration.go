package cpu

import (
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// channels returns the calibration of a sequence's packed keys, or nil if it
// has none yet. The model's own calibration also applies to exact keys and
// pinned rows. A conversation's calibration does not, because those keys were
// written before it existed.
func (t *attention) channels(seq int32, head int) *kv.Channels {
	switch c := t.cache; {
	case c.self != nil:
		return c.self[int(seq)*c.kvHeads+head].Channels()
	case c.channels != nil:
		return &c.channels[head]
	}
	return nil
}

// measuring reports whether a span has rows from which its conversation
// calibrates itself.
func (t *attention) measuring(s *llm.Span) bool { return s.Len-s.Rows < layout.SelfRows }

// measureTasks returns the number of spans that calibrate, times the number of
// KV heads.
func (t *attention) measureTasks() (n int) {
	for i := range t.p.b.Spans {
		if t.measuring(&t.p.b.Spans[i]) {
			n += t.KVHeads
		}
	}
	return n
}

// measure adds the keys of one span and KV head, and the queries that read
// them, to the calibration.
func (t *attention) measure(_, task int) {
	span, head := task/t.KVHeads, task%t.KVHeads
	for i := range t.p.b.Spans {
		s := &t.p.b.Spans[i]
		if !t.measuring(s) {
			continue
		}
		if span--; span >= 0 {
			continue
		}
		o := &t.cache.self[int(s.Seq)*t.KVHeads+head]
		for row := s.First; row < s.First+s.Rows; row++ {
			q := t.p.row(t.q, row)[head*t.group*t.DimK : (head+1)*t.group*t.DimK]
			o.Add(int(t.p.b.Pos[row]), t.p.row(t.k, row)[head*t.DimK:(head+1)*t.DimK], q)
		}
		return
	}
	panic("cpu: calibration task out of range")
}
