package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/shaders"
)

// maxGroups bounds the threadgroups of one row's decode attention: the context
// is cut in so many parts that a large device is busy and merging them is cheap.
const maxGroups = 256

// attention is the Attend op of one layer, before its launches are added.
type attention struct {
	graph.Attention
	node            graph.Node
	cache           *layerCache
	k, v            *shaders.Cache
	kForm, vForm    place
	decode, prefill *shaders.Attention
}

// attend finds the kernels of an Attend op.
func (c *compiler) attend(n graph.Node, a graph.Attention) (*attention, error) {
	p, own := c.p, a.Layer
	if n.In[1] == graph.None {
		own = a.Share
	}
	l, err := p.cache.layer(own)
	if err != nil {
		return nil, err
	}
	if l.kvHeads != a.KVHeads {
		return nil, fmt.Errorf("gpu: layer %d has %d KV heads, its cache %d", a.Layer, a.KVHeads, l.kvHeads)
	}
	t := &attention{Attention: a, node: n, cache: l}
	if err := t.bind(p); err != nil {
		k, v := l.layout.K.Active, l.layout.V.Active
		if a.MLA {
			v = k
		}
		if !errors.Is(err, shaders.ErrForm) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: op graph.Attend, layer %d, types %s and %s, on %s: %w", backend.ErrUnsupported, a.Layer, k.Name, v.Name, p.b.name(), err)
	}
	return t, nil
}

// bind describes both sides to the kernels.
func (t *attention) bind(p *program) (err error) {
	k, v := &t.cache.layout.K, &t.cache.layout.V
	if k.Channels != nil || v.Channels != nil {
		return fmt.Errorf("%w: calibrated channels", shaders.ErrForm)
	}
	if t.k, err = shaders.NewCache(k.Active, k.HeadDim, t.RopeBase); err != nil {
		return err
	}
	if t.MLA {
		t.v = t.k.View(t.DimV)
	} else if t.v, err = shaders.NewCache(v.Active, v.HeadDim, 0); err != nil {
		return err
	}
	if t.decode, err = shaders.NewAttention(t.k, t.v, t.Heads, t.KVHeads, 1); err != nil {
		return err
	}
	if t.prefill, err = shaders.NewAttention(t.k, t.v, t.Heads, t.KVHeads, p.capacity()); err != nil {
		return err
	}
	chunks := (p.image.stride*kv.PageCells + shaders.ChunkCells - 1) / shaders.ChunkCells
	t.decode.Params.Parts = uint32(max(1, min(chunks, maxGroups/t.decode.Slices())))
	for _, a := range []*shaders.Attention{t.decode, t.prefill} {
		q := &a.Params
		q.Window, q.Scale, q.Cap, q.SparseV = uint32(t.Window), t.Scale, t.Softcap, p.sizes.SparseV
		q.Sharpen, q.Soften = t.cache.layout.Temper.Sharpen, t.cache.layout.Temper.Soften
		if t.Bidirectional {
			q.Bidirectional = 1
		}
	}
	if t.kForm, err = p.constant(bytesOf(t.k.Table())); err != nil {
		return err
	}
	t.vForm, err = p.constant(bytesOf(t.v.Table()))
	return err
}

// attendMemory is scratch that all layers use one after another.
type attendMemory struct{ query, residual, partial place }

// attendRoom allocates it for the largest layer.
func (p *program) attendRoom(list []*attention) (m attendMemory, err error) {
	var query, residual, partial int
	for _, t := range list {
		if t.k.Turned() {
			query = max(query, p.capacity()*t.Heads*t.k.Lanes)
		}
		if t.k.HasResidual() {
			residual = max(residual, p.capacity()*t.Heads*t.k.Lanes)
		}
		partial = max(partial, t.prefill.PartialFloats(p.capacity()), t.decode.PartialFloats(min(maxDecode, p.capacity())))
	}
	for _, r := range []struct {
		to    *place
		size  int
		label string
	}{{&m.query, query, "turned queries"}, {&m.residual, residual, "queries of signs"}, {&m.partial, partial, "parts of attention"}} {
		b, err := p.alloc(int64(4*r.size), r.label)
		if err != nil {
			return m, err
		}
		*r.to = place{Bind{b, 0}, int64(4 * r.size)}
	}
	return m, nil
}

// addAttend adds the launches of a layer: writes to the cache, queries turned
// into the domain of the keys, parts of the context, their sum.
func (c *compiler) addAttend(t *attention) error {
	if t.node.In[1] != graph.None {
		if err := c.encode(t, t.k, &t.cache.sides[kv.K], t.node.In[1], t.kForm); err != nil {
			return err
		}
	}
	if t.node.In[2] != graph.None {
		if err := c.encode(t, t.v, &t.cache.sides[kv.V], t.node.In[2], t.vForm); err != nil {
			return err
		}
	}
	query := c.value(t.node.In[0])
	for _, l := range t.k.Query(t.Heads) {
		args := []place{query, t.kForm, c.room.query, c.room.residual}
		if err := c.perHead(l, args, t.Heads); err != nil {
			return err
		}
	}
	if t.k.Turned() {
		query = c.room.query
	}
	if err := c.parts(t, t.decode, query, true); err != nil {
		return err
	}
	return c.parts(t, t.prefill, query, false)
}

// encode adds the launches that write K or V.
func (c *compiler) encode(t *attention, side *shaders.Cache, s *side, v graph.Value, form place) error {
	for _, l := range side.Encode(t.KVHeads) {
		args := []place{c.value(v), c.rows(t.cache.group), c.tables(), {Bind{s.buffer, 0}, s.buffer.Size()}}
		if len(l.Table) > 0 {
			args = append(args[:3:3], form, args[3])
		}
		if err := c.perHead(l, args, t.KVHeads); err != nil {
			return err
		}
	}
	return nil
}

// perHead adds a launch for each of some groups of values, heads and rows.
func (c *compiler) perHead(l shaders.Launch, args []place, heads int) error {
	return c.add(l.Kernel.Name, l.Constants, l.Params, args, func(s *shape) [3]uint32 {
		return [3]uint32{l.X, uint32(heads), uint32(s.rows)}
	})
}

// parts adds the attention of decode steps or of prefill, and the sum of its
// parts.
func (c *compiler) parts(t *attention, a *shaders.Attention, query place, decode bool) error {
	p := c.p
	tiles := p.image.tilesOf(a.Rows)
	k, v := t.cache.sides[kv.K].buffer, t.cache.sides[kv.V].buffer
	if t.MLA {
		v = k
	}
	args := []place{
		query, c.room.residual, c.rows(t.cache.group), c.tables(), c.batch(tiles.at, 2*p.capacity()),
		{Bind{k, 0}, k.Size()},
		{Bind{v, 0}, v.Size()},
		t.kForm, t.vForm, c.room.partial, p.counts(t.Layer),
	}
	err := c.add(a.Kernel.Name, a.Constants, shaders.Bytes(&a.Params), args, func(s *shape) [3]uint32 {
		if s.decode != decode {
			return [3]uint32{}
		}
		return [3]uint32{a.Params.Parts, uint32(a.Slices()), uint32(tiles.n)}
	})
	if err != nil {
		return err
	}
	l := t.v.Combine(t.Heads, int(a.Params.Parts), int(present(t.Sinks)))
	args = []place{c.room.partial, c.weight(t.Sinks), t.vForm, c.value(t.node.Out)}
	return c.add(l.Kernel.Name, l.Constants, l.Params, args, func(s *shape) [3]uint32 {
		if s.decode != decode {
			return [3]uint32{}
		}
		return [3]uint32{uint32(t.Heads), uint32(s.rows), 1}
	})
}

// countBytes is what the counters of a layer take: three 64-bit numbers, padded.
const countBytes = 64

// counts is the place of a layer's counters.
func (p *program) counts(layer int) place {
	return place{Bind{p.counters, int64(layer * countBytes)}, countBytes}
}

// Skipped returns the Sparse V counters of each layer; zeros where the device
// does not answer.
func (p *program) Skipped() []backend.Skip {
	out := make([]backend.Skip, len(p.layout.Layers))
	data := make([]byte, len(out)*countBytes)
	if p.counters == nil || p.dev.Download(data, p.counters, 0) != nil {
		return out
	}
	for i := range out {
		b := data[i*countBytes:]
		out[i] = backend.Skip{Considered: int64(binary.LittleEndian.Uint64(b)), Skipped: int64(binary.LittleEndian.Uint64(b[8:]))}
	}
	return out
}
