package gpu

import (
	"fmt"

	"godwit/engine/graph"
	"godwit/shaders"
)

// states is the memory of recurrent states. Each slot holds all states of the
// plan, in order.
type states struct {
	buffer Buffer
	at     []int // offset of each state in a slot, in floats
	slot   int   // floats per slot
}

// newStates allocates the slots.
func (p *program) newStates() error {
	s := &states{}
	p.states = s
	for _, st := range p.plan.States {
		s.at = append(s.at, s.slot)
		s.slot += st.Size
	}
	if s.slot == 0 {
		return nil
	}
	size := int64(4*s.slot) * int64(max(p.sizes.Slots, 1))
	var err error
	if s.buffer, err = p.dev.Alloc(size, nil, "recurrent state"); err != nil {
		return fmt.Errorf("%d recurrent states: %w", p.sizes.Slots, err)
	}
	p.buffers = append(p.buffers, s.buffer)
	p.used.State = s.buffer.Size()
	return nil
}

// state returns the place of all slots.
func (c *compiler) state() place {
	b := c.p.states.buffer
	if b == nil { // the plan has no states
		return c.none()
	}
	return place{Bind{b, 0}, b.Size()}
}

// shortConv convolves each span.
func (c *compiler) shortConv(n graph.Node, op graph.ShortConv) error {
	p := c.p
	width := p.plan.Values[n.Out].Width
	q := &shaders.ShortConvParams{
		Width: uint32(width), Taps: uint32(op.W.Cols()), Func: uint32(op.F), Bias: present(op.Bias),
		Slot: uint32(p.states.slot), At: uint32(p.states.at[op.State]),
	}
	args := []place{c.value(n.In[0]), c.weight(op.W), c.weight(op.Bias), c.spans(), c.state(), c.value(n.Out)}
	group := shaders.Find("short_conv").Group
	return c.add("short_conv", nil, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
		return [3]uint32{threads(width, group)[0], uint32(s.spans), 1}
	})
}

// deltaNet runs the gated delta rule.
func (c *compiler) deltaNet(n graph.Node, op graph.DeltaNet) error {
	p := c.p
	q := &shaders.DeltaNetParams{
		KeyHeads: uint32(op.KeyHeads), ValueHeads: uint32(op.ValueHeads), KeyDim: uint32(op.KeyDim), ValueDim: uint32(op.ValueDim),
		Scale: op.Scale, Slot: uint32(p.states.slot), At: uint32(p.states.at[op.State]),
	}
	if op.Grouped {
		q.Grouped = 1
	}
	if op.Plain {
		q.Plain = 1
	}
	var args []place
	for _, v := range n.In {
		args = append(args, c.value(v))
	}
	args = append(args, c.spans(), c.state(), c.value(n.Out))
	group := shaders.Find("delta_net").Group
	return c.add("delta_net", nil, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
		return [3]uint32{threads(op.ValueDim, group)[0], q.ValueHeads, uint32(s.spans)}
	})
}

// spans returns the list of spans.
func (c *compiler) spans() place { return c.batch(c.p.image.list, 4*c.p.image.spans) }

// CopyState copies a recurrent state slot.
func (p *program) CopyState(dst, src int32) error {
	n := int64(4 * p.states.slot)
	if n == 0 {
		return nil
	}
	slot := make([]byte, n)
	if err := p.dev.Download(slot, p.states.buffer, int64(src)*n); err != nil {
		return err
	}
	return p.dev.Upload(p.states.buffer, int64(dst)*n, slot)
}

// ReadState copies the states of one layer out, as little-endian float32.
func (p *program) ReadState(dst []byte, layer int, slot int32) error {
	return p.eachState(layer, slot, func(at int64, from, to int) error {
		return p.dev.Download(dst[from:to], p.states.buffer, at)
	})
}

// WriteState is the inverse of ReadState.
func (p *program) WriteState(layer int, slot int32, src []byte) error {
	return p.eachState(layer, slot, func(at int64, from, to int) error {
		return p.dev.Upload(p.states.buffer, at, src[from:to])
	})
}

// eachState calls f for each state of a layer with its position in a slot and
// its byte range among the states of the layer.
func (p *program) eachState(layer int, slot int32, f func(at int64, from, to int) error) error {
	n, found := 0, false
	for i, st := range p.plan.States {
		if st.Layer != layer {
			continue
		}
		found = true
		if st.Size == 0 {
			continue
		}
		at := int64(4) * (int64(slot)*int64(p.states.slot) + int64(p.states.at[i]))
		if err := f(at, n, n+4*st.Size); err != nil {
			return err
		}
		n += 4 * st.Size
	}
	if !found {
		return fmt.Errorf("gpu: layer %d has no recurrent state", layer)
	}
	return nil
}
