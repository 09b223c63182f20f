package shaders

import (
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// Target is the place in the cache to which rows of a layer are written, as
// cell_of in cells.h finds it. The zero value stands for the packed cells of a
// layer without exact tiers.
type Target struct {
	Tier         layout.Tier
	PackedByPage bool // whether a row with an exact page leaves its packed cell unwritten for now
	Exact        int  // distance in tables between a sequence's first page and its first exact page
	Private      int  // number of private exact pages; the other exact pages begin at Passing
	Passing      int  // offset of the passing pages, in units of 64 bytes
	Pinned       int  // number of pinned positions per sequence
	Side         kv.Side
	Inspect      bool // whether rows with NaN or infinity are counted
}

// Encode returns the launches that write rows of x to a tier of the cache. c is
// the form of that tier. The grid is X by kvHeads by rows.
func (c *Cache) Encode(kvHeads int, to Target) []Launch {
	var list []Launch
	for i, s := range c.segs {
		to.Inspect = to.Inspect && i == 0 // counted in one launch, because it sees the whole row
		switch {
		case s.Form.Float && s.Form.Rotation.Size == 0:
			list = append(list, c.store(s, kvHeads, to))
		case c.cyclic():
			list = append(list, c.trellis(s, kvHeads, to))
		default:
			list = append(list, c.encode(s, kvHeads, to))
		}
	}
	if c.tail != nil {
		to.Inspect = false
		list = append(list, c.store(*c.tail, kvHeads, to))
	}
	return list
}

func (c *Cache) store(s kv.Segment, kvHeads int, to Target) Launch {
	pack, _ := packing(s.Form)
	k := Find("kv_store")
	return Launch{
		Kernel: k, Constants: Constants{"PACK": int(pack)}, X: uint32((s.Dim + k.Group - 1) / k.Group),
		Params: Bytes(&KvStoreParams{
			Side: uint32(to.Side), Inspects: truth(to.Inspect),
			Part: uint32(to.Tier), Late: truth(to.PackedByPage), Exact: uint32(to.Exact), Own: uint32(to.Private), Passing: uint32(to.Passing), Sinks: uint32(to.Pinned),
			Dim: uint32(s.Dim), First: uint32(s.First), HeadDim: uint32(c.HeadDim), KVHeads: uint32(kvHeads),
			HeadBytes: uint32(c.HeadBytes), At: uint32(s.At),
		}),
	}
}

func (c *Cache) encode(s kv.Segment, kvHeads int, to Target) Launch {
	f := s.Form
	size := max(f.Elems, f.Rotation.Size, 1)
	pack, _ := packing(f)
	p := KvEncodeParams{
		Side: uint32(to.Side), Inspects: truth(to.Inspect),
		Part: uint32(to.Tier), Late: truth(to.PackedByPage), Exact: uint32(to.Exact), Own: uint32(to.Private), Passing: uint32(to.Passing), Sinks: uint32(to.Pinned),
		Stride: uint32(c.group()),
		Dim:    uint32(s.Dim), First: uint32(s.First), HeadDim: uint32(c.HeadDim), KVHeads: uint32(kvHeads),
		HeadBytes: uint32(c.HeadBytes), At: uint32(s.At), Elems: uint32(f.Elems), Bytes: uint32(f.Bytes),
		CodeAt: uint32(f.Codes.At), HighAt: uint32(f.Codes.High), ScaleAt: uint32(f.Scale.At), MinAt: uint32(f.Scale.Min),
		Zero: uint32(f.Scale.Zero), Joint: truth(f.Scale.Joint), ZeroNan: truth(f.Scale.ZeroNaN),
		Floor: f.Scale.Floor, Outer: f.Scale.Outer, Forward: one(f.Rotation.Forward),
	}
	residual := 0
	if r := f.Residual; r != nil {
		residual = 1 + int(r.Rule)
		p.ResAt, p.ResBits = uint32(r.At), uint32(r.Bits)
	}
	if r := f.Polar; r != nil {
		p.SigmaAt, p.RadiusAt, p.AngleAt = uint32(r.Sigma), uint32(r.Radius), uint32(r.Angle)
		p.PolarFloor, p.Lambda = r.Floor, r.Lambda
	}
	return Launch{
		Kernel: Find("kv_encode"), Params: Bytes(&p), Table: c.Table(), X: uint32(s.Blocks * f.Elems / size),
		Constants: Constants{
			"RULE": int(f.Scale.Rule), "PACK": int(pack), "BITS": f.Codes.Bits, "SIZE": size, "GROUP_BYTES": size / f.Elems * f.Bytes,
			"TURNS": c.rotations(), "RESIDUAL": residual, "POLAR": int(truth(f.Polar != nil)),
		},
	}
}

func (c *Cache) trellis(s kv.Segment, kvHeads int, to Target) Launch {
	f := s.Form
	return Launch{
		Kernel: Find("kv_trellis"), Table: c.Table(), X: 1,
		Constants: Constants{"BITS": f.Codes.Bits, "SIZE": f.Elems, "TURNS": c.rotations()},
		Params: Bytes(&KvTrellisParams{
			Side: uint32(to.Side), Inspects: truth(to.Inspect),
			Late: truth(to.PackedByPage), Exact: uint32(to.Exact), Stride: uint32(c.group()), Dim: uint32(s.Dim), First: uint32(s.First),
			HeadDim: uint32(c.HeadDim), KVHeads: uint32(kvHeads), HeadBytes: uint32(c.HeadBytes), At: uint32(s.At),
			CodeAt: uint32(f.Codes.At), ScaleAt: uint32(f.Scale.At), LevelsAt: c.levelsAt(), Forward: one(f.Rotation.Forward), Unit: one(f.Scale.Unit),
		}),
	}
}

// Repack is a launch of kv_repack whose parameters the caller sets.
type Repack struct {
	Launch
	*KvRepackParams
}

// Repack returns the launches that pack pages from their exact form. There are
// none for forms that are packed when rows are written. The grid is X by
// kvHeads by the 64 cells of each page. exact is the target of the exact form,
// as in Encode.
func (c *Cache) Repack(kvHeads int, exact Target) []Repack {
	if !c.cyclic() {
		return nil
	}
	var list []Repack
	pack, _ := packing(c.Exact.form)
	rotations := 0
	if c.SelfCalibrated {
		rotations = c.rotations()
	}
	for _, s := range c.segs {
		f := s.Form
		p := &KvRepackParams{
			Side: uint32(exact.Side),
			Own:  uint32(exact.Private), Passing: uint32(exact.Passing), ExactBytes: uint32(c.Exact.HeadBytes), ExactPack: uint32(pack), LaneAt: uint32(s.Lane),
			KVHeads: uint32(kvHeads), HeadBytes: uint32(c.HeadBytes), At: uint32(s.At),
			CodeAt: uint32(f.Codes.At), ScaleAt: uint32(f.Scale.At), LevelsAt: c.levelsAt(), Unit: one(f.Scale.Unit),
			HeadDim: uint32(c.HeadDim), FirstValue: uint32(s.First), Dim: uint32(s.Dim), Stride: uint32(c.group()),
			Forward: one(f.Rotation.Forward), Inverse: one(f.Rotation.Inverse),
		}
		list = append(list, Repack{Launch{
			Kernel: Find("kv_repack"), Constants: Constants{"BITS": f.Codes.Bits, "SIZE": f.Elems, "TURNS": rotations}, Params: Bytes(p), Table: c.Table(), X: 1,
		}, p})
	}
	return list
}

// Query returns the launches that rotate query heads. There is no launch if attend
// reads queries directly. The grid is X by heads by rows.
func (c *Cache) Query(heads int) []Launch {
	if !c.Rotates() {
		return nil
	}
	var list []Launch
	for _, s := range c.segs {
		list = append(list, c.query(s, heads))
	}
	if c.tail != nil {
		list = append(list, Launch{
			Kernel: Find("kv_query"), Table: c.Table(), X: 1,
			Constants: Constants{"SIZE": c.tail.Dim, "TURNS": 0, "RESIDUAL": 0},
			Params: Bytes(&KvQueryParams{
				Dim: uint32(c.tail.Dim), HeadDim: uint32(c.HeadDim), Heads: uint32(heads), Lanes: uint32(c.Lanes),
				First: uint32(c.tail.First), LaneAt: uint32(c.tail.Lane), Scale: 1,
			}),
		})
	}
	return list
}

func (c *Cache) query(s kv.Segment, heads int) Launch {
	f := s.Form
	size := max(f.Elems, f.Rotation.Size, 1)
	p := KvQueryParams{
		Dim: uint32(s.Dim), First: uint32(s.First), HeadDim: uint32(c.HeadDim), Heads: uint32(heads), Lanes: uint32(c.Lanes),
		LaneAt: uint32(s.Lane), Stride: uint32(c.group()), Scale: one(f.Rotation.Query),
	}
	switch c.residual() {
	case 1:
		p.Factor = 1
	case 2:
		p.Factor = f.Residual.Factor
	}
	return Launch{
		Kernel: Find("kv_query"), Params: Bytes(&p), Table: c.Table(), X: uint32(s.Blocks * f.Elems / size),
		Constants: Constants{"SIZE": size, "TURNS": c.rotations(), "RESIDUAL": c.residual()},
	}
}
