package graph

import "fmt"

// InputWidth returns the width of the rows that Input reads from the batch, or
// 0 for a plan without Input.
func (p *Plan) InputWidth() int {
	for _, n := range p.Nodes {
		if _, ok := n.Op.(Input); ok {
			return p.Values[n.Out].Width
		}
	}
	return 0
}

// Cut divides a plan before a layer. The result of head, with one row per row
// of the batch, is the Input of tail. Cut fails if the layer does not exist, or
// if a layer of tail reads the cache of a layer of head.
func (p *Plan) Cut(layer int) (head, tail *Plan, err error) {
	if layer <= 0 || layer >= len(p.Layers) {
		return nil, nil, fmt.Errorf("graph: cannot cut before layer %d of %d", layer, len(p.Layers))
	}
	at := p.Layers[layer]
	for _, n := range p.Nodes[at:] {
		if a, ok := n.Op.(Attend); ok && n.In[1] == None && a.Share < layer {
			return nil, nil, fmt.Errorf("graph: cut before layer %d: layer %d reads the cache of layer %d", layer, a.Layer, a.Share)
		}
	}
	crossing, err := p.crossing(at)
	if err != nil {
		return nil, nil, err
	}
	h, t := newPart(p), newPart(p)
	for _, n := range p.Nodes[:at] {
		h.node(n)
	}
	h.b.plan.Layers = append([]int(nil), p.Layers[:layer]...)
	out := h.values[crossing[0]]
	for _, v := range crossing[1:] {
		out = h.b.Concat(out, h.values[v], h.b.Width(out), p.Values[v].Width)
	}
	if head, err = h.b.Finish(out); err != nil {
		return nil, nil, err
	}
	in := t.b.addRows(Input{}, Info{Width: head.Values[out].Width})
	first := 0
	for _, v := range crossing {
		t.values[v] = in
		if w := p.Values[v].Width; w < head.Values[out].Width {
			t.values[v] = t.b.Slice(in, 0, first, w)
			first += w
		}
	}
	shift := len(t.b.plan.Nodes) - at
	for _, l := range p.Layers[layer:] {
		t.b.plan.Layers = append(t.b.plan.Layers, l+shift)
	}
	for _, n := range p.Nodes[at:] {
		t.node(n)
	}
	tail, err = t.b.Finish(t.values[p.Output])
	return head, tail, err
}

// crossing lists the values that nodes before a cut compute and nodes after it
// read. The first node after the cut has index at.
func (p *Plan) crossing(at int) ([]Value, error) {
	made := make([]bool, len(p.Values))
	for _, n := range p.Nodes[:at] {
		made[n.Out] = true
	}
	var list []Value
	read := func(v Value) error {
		if v == None || !made[v] {
			return nil
		}
		if p.Values[v].Rows != BatchRows {
			return fmt.Errorf("graph: cut at node %d: only output rows of value %d are left", at, v)
		}
		made[v] = false
		list = append(list, v)
		return nil
	}
	for _, n := range p.Nodes[at:] {
		for _, v := range n.In {
			if err := read(v); err != nil {
				return nil, err
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("graph: cut at node %d: nothing crosses it", at)
	}
	return list, nil
}

// part copies the nodes on one side of a cut, with new value numbers.
type part struct {
	p      *Plan
	b      *Builder
	values map[Value]Value
	states map[int]int
}

func newPart(p *Plan) *part {
	return &part{p: p, b: NewBuilder(), values: map[Value]Value{None: None}, states: map[int]int{}}
}

func (s *part) node(n Node) {
	in := make([]Value, len(n.In))
	for i, v := range n.In {
		in[i] = s.values[v]
	}
	op := n.Op
	switch o := op.(type) {
	case ShortConv:
		o.State = s.state(o.State)
		op = o
	case DeltaNet:
		o.State = s.state(o.State)
		op = o
	case Scan:
		o.State = s.state(o.State)
		op = o
	case Recur:
		o.State = s.state(o.State)
		op = o
	}
	s.values[n.Out] = s.b.addRows(op, s.p.Values[n.Out], in...)
}

func (s *part) state(i int) int {
	if _, ok := s.states[i]; !ok {
		st := s.p.States[i]
		s.states[i] = s.b.state(st.Layer, st.Size)
	}
	return s.states[i]
}
