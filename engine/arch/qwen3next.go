package arch

import "godwit/engine/model"

func init() {
	model.Register("qwen3next", model.Arch{Chat: "ChatML", Open: openQwen3Next, Ahead: true})
}

// openQwen3Next opens Qwen3-Next: Qwen 3.5's blocks, with the value heads of a key
// head stored together and both gates of linear attention in one matrix. In older
// files, one matrix holds all projections of linear attention, ordered by key head.
func openQwen3Next(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.bindHybrid(f, nil, func(i int) half {
		d := bindDeltaNet(f, c, i)
		d.op.Grouped = true
		if old := blk(i, "ssm_in.weight"); f.HasTensor(old) {
			d.merged = true
			d.qkv = f.Matrix(old, c.Embd, d.width+d.op.ValueHeads*d.op.ValueDim)
		} else {
			d.bindProjections(f, c)
		}
		d.beta = f.Matrix(blk(i, "ssm_ba.weight"), c.Embd, 2*d.op.ValueHeads)
		return d
	}, func(i int) half { return bindGatedShare(f, c, i, true) })
	return m, nil
}
