package cpu

import (
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// packs returns the pages that this batch packs.
func (t *attention) packs() []llm.Pack {
	if t.order.of == 0 {
		return nil
	}
	return t.p.b.Packs[t.cache.group]
}

// packOrder is the index of a layer among the layers of its group that are
// packed by page, and the number of these layers.
type packOrder struct{ index, of int }

// packOrderOf returns the index of a layer. It is zero if the layer is not
// packed by page.
func packOrderOf(l *layout.Layout, layer int) (p packOrder) {
	packedByPage := func(y *layout.Layer) bool { return y.K.PackedByPage() || y.V.PackedByPage() }
	y := &l.Layers[layer]
	if !packedByPage(y) {
		return p
	}
	for _, i := range l.Groups[y.Group].Layers {
		if i == layer {
			p.index = p.of
		}
		if packedByPage(&l.Layers[i]) {
			p.of++
		}
	}
	return p
}

// packTasks returns the number of tasks for packing in this layer and batch.
// There is one for each page, side and KV head. now selects the pages that are
// packed before attention, otherwise those that are packed during it.
func (t *attention) packTasks(now bool) (n int) {
	list := t.packs()
	for i := range 2 * len(list) {
		if t.packsIn(&list[i/2], kv.Side(i%2), now) {
			n++
		}
	}
	return n * t.KVHeads
}

// packsIn reports whether this layer packs a side of p before attention (now)
// or during it.
func (t *attention) packsIn(p *llm.Pack, s kv.Side, now bool) bool {
	step := (2*t.order.index + int(s)) * p.Of / (2 * t.order.of)
	return p.Now == now && step >= p.From && step < p.To && t.cache.side(s).packedByPage
}

// pack packs one side and KV head of a page.
func (t *attention) pack(worker, task int, now bool) {
	skip, head := task/t.KVHeads, task%t.KVHeads
	list := t.packs()
	for i := range 2 * len(list) {
		p := &list[i/2]
		if !t.packsIn(p, kv.Side(i%2), now) {
			continue
		}
		if skip == 0 {
			side := kv.Side(i % 2)
			s := t.cache.side(side)
			var c *kv.Channels // calibration of the packed keys, if the exact keys are not normalised
			if side == kv.K && t.cache.self != nil {
				c = t.channels(int32(p.Seq), head)
			}
			t.saturated(side, s.form.Pack(s.head(p.Page, head), s.exact.form, s.exact.head(p.Exact, head), c, t.workers[worker].scratch))
			return
		}
		skip--
	}
	panic("cpu: pack task out of range")
}
