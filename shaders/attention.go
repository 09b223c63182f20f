package shaders

import (
	"fmt"
	"sync"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// laneClasses are the head sizes for which there are instances. queries are the
// numbers of queries that instances process.
var (
	laneClasses = []int{64, 128, 256, 640}
	queries     = []int{1, 2, 4, 8}
)

// laneClass returns the smallest class with room for lanes, or 0.
func laneClass(lanes int) int {
	for _, n := range laneClasses {
		if lanes <= n {
			return n
		}
	}
	return 0
}

// Attention is the attend kernel for a pair of caches.
type Attention struct {
	Kernel    *Kernel
	Constants Constants
	Params    AttendParams // parameters; the caller sets Parts and the scalars of its op
	Heads     int          // number of query heads per threadgroup
	Rows      int          // number of rows per tile
}

// NewAttention chooses the queries of a threadgroup, for tiles of at most rows
// rows. It takes as many queries as registers and shared memory hold, first
// more heads of a KV head and then more rows. The grid is parts by Slices by
// tiles.
func NewAttention(k, v *Cache, heads, kvHeads, rows int) (*Attention, error) {
	lanes := laneClass(k.Lanes)
	most := mostQueries(lanes, k.second() > 0)
	if laneClass(v.Lanes) == 0 || most == 0 {
		return nil, fmt.Errorf("%w: heads of %d and %d values, at most %d", ErrForm, k.Lanes, v.Lanes, laneClasses[len(laneClasses)-1])
	}
	group := heads / kvHeads
	a := &Attention{Kernel: Find("attend"), Heads: min(group, most)}
	a.Rows = max(1, min(rows, most/a.Heads))
	n := 0
	for queries[n] < a.Heads*a.Rows {
		n++
	}
	a.Constants = attendConstants(k, v, queries[n], lanes)
	p := &a.Params
	*p = AttendParams{
		Heads: uint32(heads), KVHeads: uint32(kvHeads), Group: uint32(group), SliceHeads: uint32(a.Heads), Parts: 1,
		DK: uint32(k.Lanes), DV: uint32(v.Lanes), KHeadBytes: uint32(k.HeadBytes), VHeadBytes: uint32(v.HeadBytes),
	}
	p.KPack, p.KBits, p.KAffine, p.KTail = k.reader()
	p.VPack, p.VBits, p.VAffine, p.VTail = v.reader()
	p.KCut, p.KLevels, p.KLevelsAt, p.KUnit = uint32(k.cut), uint32(len(k.form.Codes.Levels)), k.levelsAt(), one(k.form.Scale.Unit)
	p.VCut, p.VLevels, p.VLevelsAt, p.VUnit = uint32(v.cut), uint32(len(v.form.Codes.Levels)), v.levelsAt(), one(v.form.Scale.Unit)
	p.KExactPack, p.KExactBytes, p.KExactTail, p.KSinkBytes = k.beside()
	p.VExactPack, p.VExactBytes, p.VExactTail, p.VSinkBytes = v.beside()
	f := k.form
	p.KElems, p.KBytes, p.KCodeAt, p.KHighAt = uint32(f.Elems), uint32(f.Bytes), uint32(f.Codes.At), uint32(f.Codes.High)
	p.KScaleAt, p.KMinAt, p.KTailAt = uint32(f.Scale.At), uint32(f.Scale.Min), k.tailAt()
	if k.HasResidual() {
		p.KResAt, p.KResBits = uint32(f.Residual.At), uint32(f.Residual.Bits)
	}
	f = v.form
	p.VElems, p.VBytes, p.VCodeAt, p.VHighAt = uint32(f.Elems), uint32(f.Bytes), uint32(f.Codes.At), uint32(f.Codes.High)
	p.VScaleAt, p.VMinAt, p.VTailAt = uint32(f.Scale.At), uint32(f.Scale.Min), v.tailAt()
	return a, nil
}

// mostQueries returns how many queries fit in shared memory, for a class of
// head sizes. It may be 0.
func mostQueries(lanes int, second bool) int {
	for i := len(queries) - 1; i >= 0 && lanes > 0; i-- {
		n := queries[i]
		if 4*(n*lanes*(1+int(truth(second)))+max(n*ChunkCells, 1024)) <= maxShared {
			return n
		}
	}
	return 0
}

// attendConstants returns the constants of attend for a pair of caches. For
// frequent pairs, the instructions that read K and V are compiled in.
func attendConstants(k, v *Cache, queries, lanes int) Constants {
	c := anyPair(k.second(), exact(k, v), queries, lanes)
	if !frequent()[pairOf(k, v)] {
		return c
	}
	c["READERS"] = 1
	for side, r := range map[string]reader{"K": k.readerOf(), "V": v.readerOf()} {
		c[side+"_PACK"], c[side+"_BITS"], c[side+"_AFFINE"], c[side+"_TAIL"] = int(r.pack), int(r.bits), int(r.affine), int(r.tail)
	}
	return c
}

// anyPair returns the constants of attend for any pair. Such an instance reads
// the format of K and V from the parameters.
func anyPair(second int, exact bool, queries, lanes int) Constants {
	return Constants{
		"QUERIES": queries, "LANES": lanes, "READERS": 0, "K_RES": second, "EXACT": int(truth(exact)),
		"K_PACK": 0, "K_BITS": 0, "K_AFFINE": 0, "K_TAIL": 0, "V_PACK": 0, "V_BITS": 0, "V_AFFINE": 0, "V_TAIL": 0,
	}
}

// exact reports whether a side has exact cells in addition to its packed cells.
func exact(k, v *Cache) bool {
	return k.Exact != nil || k.Pinned != nil || v.Exact != nil || v.Pinned != nil
}

// beside returns the parameters of attend for exact pages and pinned rows.
func (c *Cache) beside() (pack, bytes, tail, pinned uint32) {
	if c.Exact != nil {
		p, _ := packing(c.Exact.form)
		pack, bytes, tail = uint32(p), uint32(c.Exact.HeadBytes), c.Exact.tailAt()
	}
	if c.Pinned != nil {
		pinned = uint32(c.Pinned.HeadBytes)
	}
	return pack, bytes, tail, pinned
}

// reader describes how to find the values of a row.
type reader struct{ pack, bits, affine, tail uint32 }

func (c *Cache) readerOf() (r reader) {
	r.pack, r.bits, r.affine, r.tail = c.reader()
	if c.cyclic() {
		r.bits = 0 // read it from the parameters
	}
	return r
}

// reader returns the parameters of attend for one side.
func (c *Cache) reader() (pack, bits, affine, tail uint32) {
	p, _ := packing(c.form)
	pack, bits, affine = uint32(p), uint32(c.form.Codes.Bits), truth(c.form.Scale.Affine)
	if c.tail != nil {
		tail = uint32(c.HeadDim - c.tail.First)
	}
	return pack, bits, affine, tail
}

// pair holds everything that an instance of attend depends on, except the
// sizes.
type pair struct {
	k, v  reader
	exact bool
}

func pairOf(k, v *Cache) pair { return pair{k.readerOf(), v.readerOf(), exact(k, v)} }

// frequent returns the pairs that have their own instances. These are the pairs
// in presets, pairs of one safe type that people often choose, and pairs of
// types with a default exact tier, which are all read in the same way.
var frequent = sync.OnceValue(func() map[pair]bool {
	pairs := map[pair]bool{}
	each(func(k, v *Cache) { pairs[pairOf(k, v)] = true })
	return pairs
})

// each calls f for the caches of every frequent pair at the usual head sizes.
func each(f func(k, v *Cache)) {
	for _, dim := range []int{64, 96, 128, 256} {
		for _, t := range kv.Types() {
			if t.Group == kv.Safe || t.Window != (kv.Window{}) {
				if c := resolved(t, dim, kv.K, t.Window); c != nil {
					f(c, c)
				}
			}
		}
		for _, w := range wanted(dim) {
			if k, v := resolved(w.K, dim, kv.K, w.K.Window), resolved(w.V, dim, kv.V, w.V.Window); k != nil && v != nil {
				f(k, v)
			}
		}
	}
}

// wanted returns the pairs in presets, and those in kv.Pairs with three bits or
// more, for one head size.
func wanted(dim int) (list []layout.Want) {
	in := []layout.LayerInfo{{Cached: true, Heads: 1, KVHeads: 1, HeadDimK: dim, HeadDimV: dim, Share: -1}}
	for _, p := range layout.Presets() {
		list = append(list, p.Want(in))
	}
	for _, p := range kv.Pairs() {
		k, err := kv.Parse(p.K)
		if err != nil {
			panic("shaders: " + err.Error())
		}
		v, err := kv.Parse(p.V)
		if err != nil {
			panic("shaders: " + err.Error())
		}
		if min(k.NominalBits(), v.NominalBits()) >= 3 {
			list = append(list, layout.Want{K: k, V: v})
		}
	}
	return list
}

// Slices returns the second dimension of attend's grid.
func (a *Attention) Slices() int {
	p := &a.Params
	return int(p.KVHeads) * ((int(p.Group) + a.Heads - 1) / a.Heads)
}

// PartialFloats returns the number of floats in partial for rows rows.
func (a *Attention) PartialFloats(rows int) int {
	return rows * int(a.Params.Heads) * int(a.Params.Parts) * int(a.Params.DV+2)
}

// tailAt returns the byte offset of the tail in a cell.
func (c *Cache) tailAt() uint32 {
	if c.tail == nil {
		return 0
	}
	return uint32(c.tail.At)
}
