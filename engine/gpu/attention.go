package gpu

import (
	"encoding/binary"
	"fmt"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/shaders"
)

// maxGroups is the maximum number of threadgroups for the decode attention of
// one row. It gives enough chunks of the context to keep a large device busy,
// and few enough chunks to merge cheaply.
const maxGroups = 256

// attention is the Attend op of one layer before its launches are added.
type attention struct {
	graph.Attention
	node            graph.Node
	cache           *layerCache
	k, v            *shaders.Cache
	kForm, vForm    place
	decode, prefill *shaders.Attention
	mean, gain      place // calibration of the key channels, [kv heads][DimK]; mean.size is 0 without one
	shifted         bool  // whether packed scores lack the product of query and mean, and the result depends on it
}

// attend selects the kernels of an Attend op.
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
	if err := p.attends(&a); err != nil {
		return nil, err
	}
	t := &attention{Attention: a, node: n, cache: l}
	return t, t.bind(p)
}

// bind describes both sides to the kernels.
func (t *attention) bind(p *program) (err error) {
	y := t.cache.layout
	if t.k, t.v, err = caches(y, t.RopeBase); err != nil {
		return err
	}
	if t.decode, err = shaders.NewAttention(t.k, t.v, t.Heads, t.KVHeads, 1); err != nil {
		return err
	}
	if t.prefill, err = shaders.NewAttention(t.k, t.v, t.Heads, t.KVHeads, p.capacity()); err != nil {
		return err
	}
	if err := t.normalisation(p); err != nil {
		return err
	}
	chunks := (p.image.stride*kv.PageCells + shaders.ChunkCells - 1) / shaders.ChunkCells
	t.decode.Params.Parts = uint32(max(1, min(chunks, maxGroups/t.decode.Slices())))
	for _, a := range []*shaders.Attention{t.decode, t.prefill} {
		q := &a.Params
		q.Window, q.Scale, q.Cap, q.SparseV = uint32(t.Window), t.Scale, t.Softcap, p.sizes.SparseV
		q.Sharpen, q.Soften = y.Temper.Sharpen, y.Temper.Soften
		if t.Bidirectional {
			q.Bidirectional = 1
		}
		if t.shifted && t.Softcap > 0 && t.cache.self == nil {
			q.Shifted = 1
		}
		q.Newest, q.Sinks, q.ExactTable = uint32(y.Exact.Newest), uint32(y.Exact.Pinned), uint32(p.image.exact)
		q.KOwn, q.KOwnAt, q.KPassingAt = t.cache.sides[kv.K].places()
		q.VOwn, q.VOwnAt, q.VPassingAt = t.values().places()
	}
	if t.kForm, err = p.constant(bytesOf(t.k.Table())); err != nil {
		return err
	}
	t.vForm, err = p.constant(bytesOf(t.v.Table()))
	return err
}

// values returns the side from which V is read.
func (t *attention) values() *side {
	if t.MLA {
		return &t.cache.sides[kv.K]
	}
	return &t.cache.sides[kv.V]
}

// places returns the locations of the exact pages that attend needs, relative
// to bindExact.
func (s *side) places() (private, privateAt, passing uint32) {
	if s.exact.buffer == nil {
		return 0, 0, 0
	}
	at := s.exact.at - s.base()
	return uint32(s.exact.private), uint32(at / imageAlign), uint32((at + s.passing) / imageAlign)
}

// base returns the offset of the pinned rows and exact pages of a layer.
func (s *side) base() int64 {
	if s.pinned.buffer != nil {
		return s.pinned.at
	}
	return s.exact.at
}

// bindExact returns the memory that holds pinned rows and exact pages, starting
// at base.
func (c *compiler) bindExact(t *attention, s *side) place {
	b := c.p.cache.beside[kv.K]
	if s == &t.cache.sides[kv.V] {
		b = c.p.cache.beside[kv.V]
	}
	if s.pinned.buffer == nil && s.exact.buffer == nil {
		return c.none()
	}
	return place{Bind{b, s.base()}, b.Size() - s.base()}
}

// normalisation uploads the calibration of the key channels.
func (t *attention) normalisation(p *program) (err error) {
	if o := t.cache.self; o != nil { // exact keys include the mean, and packed scores do not
		t.mean, t.gain, t.shifted = o.mean, o.gain, true
		return nil
	}
	list := t.cache.layout.K.Channels
	if list == nil {
		return nil
	}
	var mean, gain []float32
	for _, c := range list {
		mean, gain = append(mean, c.Mean...), append(gain, c.Gain...)
	}
	centred := slices.ContainsFunc(mean, func(m float32) bool { return m != 0 })
	t.shifted = centred && (t.Softcap > 0 || t.SinkLogits != nil)
	if t.mean, err = p.constant(bytesOf(mean)); err == nil {
		t.gain, err = p.constant(bytesOf(gain))
	}
	return err
}

// attendMemory is scratch that all layers use one after another. normalised
// holds queries divided by the gain of their channels, and keys holds keys
// multiplied by it. query holds rotated queries, and residual the second vector
// for residual signs. shift holds shifts, and partial holds results of chunks.
type attendMemory struct{ normalised, keys, query, residual, shift, partial place }

// attendRoom allocates this memory for the largest layer.
func (p *program) attendRoom(list []*attention) (m attendMemory, err error) {
	var normalised, keys, query, residual, shift, partial int
	for _, t := range list {
		if t.mean.size > 0 {
			normalised, keys = max(normalised, p.capacity()*t.Heads*t.DimK), max(keys, p.capacity()*t.KVHeads*t.DimK)
		}
		if t.shifted {
			shift = max(shift, p.capacity()*t.Heads)
		}
		if t.k.Rotates() {
			query = max(query, p.capacity()*t.Heads*t.k.Lanes)
		}
		if t.k.HasResidual() || t.k.SelfCalibrated {
			residual = max(residual, p.capacity()*t.Heads*t.k.Lanes)
		}
		partial = max(partial, t.prefill.PartialFloats(p.capacity()), t.decode.PartialFloats(min(maxDecode, p.capacity())))
	}
	for _, r := range []struct {
		to    *place
		size  int
		label string
	}{
		{&m.normalised, normalised, "levelled queries"},
		{&m.keys, keys, "levelled keys"},
		{&m.query, query, "turned queries"},
		{&m.residual, residual, "queries of signs"},
		{&m.shift, shift, "shifts"},
		{&m.partial, partial, "chunks of attention"},
	} {
		b, err := p.alloc(int64(4*r.size), r.label)
		if err != nil {
			return m, err
		}
		*r.to = place{Bind{b, 0}, int64(4 * r.size)}
	}
	return m, nil
}

// addAttend adds the launches of a layer. They write to the cache, pack pages,
// rotate queries into the domain of the keys, attend over chunks of the
// context, and merge the chunks.
func (c *compiler) addAttend(t *attention) error {
	query := c.value(t.node.In[0])
	if t.node.In[1] != graph.None {
		exact := c.value(t.node.In[1])
		keys := exact
		if t.mean.size > 0 {
			q := &shaders.KvLevelParams{Width: uint32(t.KVHeads * t.DimK), Dim: uint32(t.DimK), Group: 1}
			if err := c.normalise(q, keys, t, c.room.keys); err != nil {
				return err
			}
			keys = c.room.keys
		}
		if t.cache.self == nil {
			exact = keys
		}
		if err := c.write(t, t.k, kv.K, keys, exact); err != nil {
			return err
		}
	}
	if t.node.In[2] != graph.None {
		v := c.value(t.node.In[2])
		if err := c.write(t, t.v, kv.V, v, v); err != nil {
			return err
		}
	}
	c.measure(t)
	if t.node.In[1] != graph.None {
		if err := c.repack(t); err != nil {
			return err
		}
	}
	query, err := c.query(t, query)
	if err != nil {
		return err
	}
	if err := c.chunks(t, t.decode, query, true); err != nil {
		return err
	}
	return c.chunks(t, t.prefill, query, false)
}

// query adds the launches that transform queries into the domain of the keys.
func (c *compiler) query(t *attention, query place) (place, error) {
	if t.shifted {
		q := &shaders.KvShiftParams{Heads: uint32(t.Heads), Dim: uint32(t.DimK), Group: uint32(t.Heads / t.KVHeads), Window: uint32(t.Window), Scale: 1}
		if t.Softcap == 0 && t.cache.self == nil { // here the shift is subtracted from the sink logits, so it is scaled and tempered like the scores; otherwise attend adds it to raw scores
			q.Scale, q.Sharpen, q.Soften = t.Scale, t.cache.layout.Temper.Sharpen, t.cache.layout.Temper.Soften
		}
		if t.cache.self != nil {
			q.Each = uint32(t.cache.self.each())
		}
		args := []place{query, c.rows(t.cache.group), t.mean, c.room.shift}
		err := c.add("kv_shift", nil, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
			return [3]uint32{uint32(t.Heads), uint32(s.rows), 1}
		})
		if err != nil {
			return query, err
		}
	}
	if t.k.SelfCalibrated {
		if err := c.rotateQuery(t, query, c.room.residual, c.none()); err != nil {
			return query, err
		}
	}
	if t.mean.size > 0 {
		q := &shaders.KvLevelParams{Width: uint32(t.Heads * t.DimK), Dim: uint32(t.DimK), Group: uint32(t.Heads / t.KVHeads), Query: 1}
		if err := c.normalise(q, query, t, c.room.normalised); err != nil {
			return query, err
		}
		query = c.room.normalised
	}
	residual := c.room.residual
	if t.k.SelfCalibrated {
		residual = c.none()
	}
	if err := c.rotateQuery(t, query, c.room.query, residual); err != nil {
		return query, err
	}
	if t.k.Rotates() {
		query = c.room.query
	}
	return query, nil
}

// rotateQuery adds the launches that rotate queries and compute the second
// query vector for residual signs.
func (c *compiler) rotateQuery(t *attention, query, to, residual place) error {
	for _, l := range t.k.Query(t.Heads) {
		if err := c.perHead(l, []place{query, t.kForm, to, residual}, t.Heads); err != nil {
			return err
		}
	}
	return nil
}

// normalise adds the launch that multiplies or divides every channel of queries
// or keys by its gain.
func (c *compiler) normalise(q *shaders.KvLevelParams, x place, t *attention, to place) error {
	group := shaders.Find("kv_level").Group
	if t.cache.self != nil {
		q.Each = uint32(t.cache.self.each())
	}
	return c.add("kv_level", nil, shaders.Bytes(q), []place{x, c.rows(t.cache.group), t.mean, t.gain, to}, func(s *shape) [3]uint32 {
		q.Count = uint32(s.rows) * q.Width
		return threads(int(q.Count), group)
	})
}

// write adds the launches that write K or V to every tier with a cell for it.
// packed goes to the packed tier, and exact to the exact and pinned tiers.
func (c *compiler) write(t *attention, form *shaders.Cache, s kv.Side, packed, exact place) error {
	d := &t.cache.sides[s]
	to := shaders.Target{PackedByPage: t.cache.layout.Side(s).PackedByPage(), Exact: c.p.image.exact, Side: s, Inspect: true}
	if err := c.encode(t, form, &d.packed, to, packed); err != nil {
		return err
	}
	if d.exact.buffer != nil {
		if err := c.encode(t, form.Exact, &d.exact, d.target(s, c.p.image), exact); err != nil {
			return err
		}
	}
	if d.pinned.buffer == nil {
		return nil
	}
	return c.encode(t, form.Pinned, &d.pinned, shaders.Target{Tier: layout.Pinned, Pinned: d.pinned.page, Side: s}, exact)
}

// target describes the exact tier of a side as a target for encoding.
func (s *side) target(of kv.Side, m *image) shaders.Target {
	return shaders.Target{Tier: layout.Exact, Side: of, Exact: m.exact, Private: s.exact.private, Passing: int(s.passing / imageAlign)}
}

// encode adds the launches that write K or V to one tier.
func (c *compiler) encode(t *attention, form *shaders.Cache, to *cells, target shaders.Target, x place) error {
	table, err := c.p.constant(bytesOf(form.Table()))
	if err != nil {
		return err
	}
	cache := place{Bind{to.buffer, to.at}, to.buffer.Size() - to.at}
	if target.Tier == layout.Pinned {
		cache.size = int64(max(c.p.layout.Settings.Seqs, 1) * to.page * t.KVHeads * to.head)
	}
	for _, l := range form.Encode(t.KVHeads, target) {
		args := []place{x, c.rows(t.cache.group), c.tables()}
		if len(l.Table) > 0 {
			args = append(args, table)
		}
		args = append(args, cache, c.p.counts(t.Layer))
		if err := c.perHead(l, args, t.KVHeads); err != nil {
			return err
		}
	}
	return nil
}

// perHead adds a launch with one thread per group of values, head and row.
func (c *compiler) perHead(l shaders.Launch, args []place, heads int) error {
	return c.add(l.Kernel.Name, l.Constants, l.Params, args, func(s *shape) [3]uint32 {
		return [3]uint32{l.X, uint32(heads), uint32(s.rows)}
	})
}

// chunks adds the launches that attend over chunks of the context, for decode
// steps or for prefill, and that merge the chunks.
func (c *compiler) chunks(t *attention, a *shaders.Attention, query place, decode bool) error {
	p := c.p
	tiles := p.image.tilesOf(a.Rows, t.cache.layout.Exact)
	k, v := t.cache.sides[kv.K].packed.buffer, t.values().packed.buffer
	args := []place{
		query, c.room.residual, c.rows(t.cache.group), c.tables(), c.batch(tiles.at, 2*p.capacity()),
		{Bind{k, 0}, k.Size()},
		{Bind{v, 0}, v.Size()},
		t.kForm, t.vForm, c.room.partial, p.counts(t.Layer),
		c.bindExact(t, &t.cache.sides[kv.K]), c.bindExact(t, t.values()), c.room.shift,
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
	l := t.v.Combine(t.Heads, int(a.Params.Parts), int(present(t.SinkLogits)), t.shifted && t.Softcap == 0 && t.cache.self == nil)
	args = []place{c.room.partial, c.weight(t.SinkLogits), t.vForm, c.room.shift, c.value(t.node.Out)}
	return c.add(l.Kernel.Name, l.Constants, l.Params, args, func(s *shape) [3]uint32 {
		if s.decode != decode {
			return [3]uint32{}
		}
		return [3]uint32{uint32(t.Heads), uint32(s.rows), 1}
	})
}

// countBytes is the size of the counters of a layer: six 64-bit numbers (see
// count.h) and padding.
const countBytes = 64

// counts returns the location of a layer's counters.
func (p *program) counts(layer int) place {
	return place{Bind{p.counters, int64(layer * countBytes)}, countBytes}
}

// Counts returns the counters of each layer, or zeros if the device does not
// respond.
func (p *program) Counts() []backend.Counts {
	out := make([]backend.Counts, len(p.layout.Layers))
	data := make([]byte, len(out)*countBytes)
	if p.counters == nil || p.dev.Download(data, p.counters, 0) != nil {
		return out
	}
	for i := range out {
		n := func(k int) int64 { return int64(binary.LittleEndian.Uint64(data[i*countBytes+8*k:])) }
		out[i] = backend.Counts{Considered: n(0), Skipped: n(1), Saturated: [2]int64{n(3), n(4)}, Broken: n(5)}
	}
	return out
}
