package shaders

import (
	"errors"
	"fmt"
	"math"

	"godwit/engine/dtype"
	"godwit/engine/kv"
)

// ErrForm is wrapped where no kernel reads or writes a cache type.
var ErrForm = errors.New("no kernel for this form of cache")

// Pack is how a kernel finds the values of a row.
type Pack int

// The packings, numbered as in form.h.
const (
	F32Values Pack = iota
	F16Values
	BF16Values
	Int8Codes
	StreamCodes
	PlaneCodes
	HalfCodes
)

// ChunkCells is the number of positions whose softmax attend computes together;
// a part is a whole number of chunks.
const ChunkCells = 512

// maxShared is the shared memory that attend may plan with, in bytes; the rest
// of the 32 KiB is for its small arrays.
const maxShared = 31 << 10

// Cache is one side of a layer's cache as the kernels see it: a cache type at a
// head size, all of it data of the type's literal. A head has one form, and after
// it perhaps a tail of f16 values.
type Cache struct {
	HeadDim   int // values of a head
	Lanes     int // values in the rotated domain, zeros included
	HeadBytes int // of a cell

	form *kv.Type // the first segment's
	seg  kv.Segment
	tail *kv.Segment
	base float32
	view bool
}

// Launch is a kernel with what it needs of a cache. Its grid is X by heads by
// rows of the batch, unless its method says otherwise.
type Launch struct {
	Kernel    *Kernel
	Constants Constants
	Params    []byte
	Table     []float32 // what the argument form holds
	X         uint32
}

// NewCache describes a type at a head size. ropeBase is that of the keys, 0 for
// the type's own.
func NewCache(t *kv.Type, headDim int, ropeBase float32) (*Cache, error) {
	segs := t.Segments(headDim)
	c := &Cache{
		HeadDim: headDim, Lanes: t.Padded(headDim), HeadBytes: t.RowBytes(headDim),
		seg: segs[0], form: segs[0].Form, base: ropeBase,
	}
	if len(segs) > 1 {
		c.tail = &segs[1]
		if len(segs) > 2 || segs[1].Form.Stored != dtype.F16 || !segs[1].Form.Float || c.seg.Dim%c.group() != 0 {
			return nil, fmt.Errorf("%w: %s is neither one form nor one with an f16 tail", ErrForm, t.Name)
		}
	}
	if _, err := packing(c.form); err != nil {
		return nil, err
	}
	return c, nil
}

// View is V where V is the first dim values of K's rows.
func (c *Cache) View(dim int) *Cache {
	v := *c
	v.HeadDim, v.view = dim, true
	if dim <= c.seg.Dim {
		v.tail = nil
		v.Lanes = (dim + c.group() - 1) / c.group() * c.group()
	} else {
		v.Lanes = dim
	}
	return &v
}

// packing is the Pack of a simple form.
func packing(f *kv.Type) (Pack, error) {
	floats := map[dtype.Type]Pack{dtype.F32: F32Values, dtype.F16: F16Values, dtype.BF16: BF16Values}
	codes := map[kv.Packing]Pack{kv.Stream: StreamCodes, kv.Planes: PlaneCodes, kv.Halves: HalfCodes, kv.Int8: Int8Codes}
	from, ok := floats[f.Stored], f.Float && f.Rotation.Size == 0
	if !f.Float {
		from, ok = codes[f.Codes.Packing]
	}
	if !ok || !f.Float && (f.Codes.Bits > 5 && from != Int8Codes || f.Elems%8 != 0) {
		return 0, fmt.Errorf("%w: %s", ErrForm, f.Name)
	}
	return from, nil
}

// group is the number of values that are packed together.
func (c *Cache) group() int { return max(c.form.Elems, c.form.Rotation.Size, 1) }

// turns is the number of transforms of the rotation.
func (c *Cache) turns() int {
	switch r := &c.form.Rotation; {
	case r.Size == 0:
		return 0
	case r.Mid == nil:
		return 1
	}
	return 2
}

// residual is 1 for signs of the values, 2 for signs of a projection; 0 for none
// that scores read.
func (c *Cache) residual() int {
	r := c.form.Residual
	switch {
	case r == nil || r.Factor == 0:
		return 0
	case r.Rule == kv.Projected:
		return 2
	}
	return 1
}

// HasResidual reports whether scores need the second vector of kv_query.
func (c *Cache) HasResidual() bool { return c.residual() > 0 }

// Turned reports whether queries pass kv_query before attend; where they do
// not, attend reads them as they are.
func (c *Cache) Turned() bool { return c.turns() > 0 || c.Lanes != c.HeadDim }

// Encode lists the launches that write rows of x to the cells of the cache. The
// grid is X by kvHeads by rows.
func (c *Cache) Encode(kvHeads int) []Launch {
	var list []Launch
	add := func(s kv.Segment) {
		if s.Form.Float {
			list = append(list, c.store(s, kvHeads))
		} else {
			list = append(list, c.encode(s, kvHeads))
		}
	}
	add(c.seg)
	if c.tail != nil {
		add(*c.tail)
	}
	return list
}

func (c *Cache) store(s kv.Segment, kvHeads int) Launch {
	pack, _ := packing(s.Form)
	k := Find("kv_store")
	return Launch{
		Kernel: k, Constants: Constants{"PACK": int(pack)}, X: uint32((s.Dim + k.Group - 1) / k.Group),
		Params: Bytes(&KvStoreParams{
			Dim: uint32(s.Dim), First: uint32(s.First), HeadDim: uint32(c.HeadDim), KVHeads: uint32(kvHeads),
			HeadBytes: uint32(c.HeadBytes), At: uint32(s.At),
		}),
	}
}

func (c *Cache) encode(s kv.Segment, kvHeads int) Launch {
	f, size := s.Form, c.group()
	pack, _ := packing(f)
	p := KvEncodeParams{
		Dim: uint32(s.Dim), First: uint32(s.First), HeadDim: uint32(c.HeadDim), KVHeads: uint32(kvHeads),
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
			"TURNS": c.turns(), "RESIDUAL": residual, "POLAR": int(truth(f.Polar != nil)),
		},
	}
}

// Query lists the launches that turn query heads; none where they are read as
// they are. The grid is X by heads by rows.
func (c *Cache) Query(heads int) []Launch {
	if !c.Turned() {
		return nil
	}
	p := KvQueryParams{
		Dim: uint32(c.seg.Dim), HeadDim: uint32(c.HeadDim), Heads: uint32(heads), Lanes: uint32(c.Lanes), Scale: one(c.form.Rotation.Query),
	}
	if c.residual() > 0 {
		p.Factor = c.form.Residual.Factor
	}
	if c.residual() == 1 {
		p.Factor = 1
	}
	lanes, size := c.Lanes, c.group()
	if c.tail != nil {
		lanes -= c.tail.Dim
	}
	list := []Launch{{
		Kernel: Find("kv_query"), Params: Bytes(&p), Table: c.Table(), X: uint32(lanes / size),
		Constants: Constants{"SIZE": size, "TURNS": c.turns(), "RESIDUAL": c.residual()},
	}}
	if c.tail != nil {
		tail := p
		tail.First, tail.Dim, tail.LaneAt = uint32(c.tail.First), uint32(c.tail.Dim), uint32(lanes)
		list = append(list, Launch{
			Kernel: Find("kv_query"), Params: Bytes(&tail), Table: c.Table(), X: 1,
			Constants: Constants{"SIZE": c.tail.Dim, "TURNS": 0, "RESIDUAL": 0},
		})
	}
	return list
}

// Combine is the launch that merges the parts of a row. Its grid is heads by
// rows; sinks is 1 where each head has a logit without a value.
func (c *Cache) Combine(heads, parts, sinks int) Launch {
	p := AttendCombineParams{
		Heads: uint32(heads), Parts: uint32(parts), Lanes: uint32(c.Lanes), Dim: uint32(c.HeadDim), Sinks: uint32(sinks), Inverse: one(c.form.Rotation.Inverse),
	}
	p.Size = 1
	if c.turns() > 0 {
		p.Size, p.Turned = uint32(c.group()), uint32(c.Lanes)
		if c.tail != nil {
			p.Turned -= uint32(c.tail.Dim)
		}
	}
	return Launch{
		Kernel: Find("attend_combine"), Params: Bytes(&p), Table: c.Table(),
		Constants: Constants{"LANES": laneClass(c.Lanes), "TURNS": c.turns()},
	}
}

// Table is what the argument form of kernels holds: levels and boundaries, 32
// each, then the vectors of the rotation and of the residual, and the polar data.
func (c *Cache) Table() []float32 {
	f, size := c.form, c.group()
	t := make([]float32, 64+4*size)
	copy(t, f.Codes.Levels)
	copy(t[32:], f.Codes.Boundaries)
	vectors := [][]float32{f.Rotation.Pre, f.Rotation.Mid, f.Rotation.Post, nil}
	if f.Residual != nil {
		vectors[3] = f.Residual.Signs
	}
	for i, v := range vectors {
		part := t[64+i*size:][:size]
		for j := range part {
			part[j] = 1
		}
		copy(part, v)
	}
	if f.Polar != nil {
		t = append(t, c.polar()...)
	}
	return t
}

// polar is the table of polar.h.
func (c *Cache) polar() []float32 {
	p, n := c.form.Polar, c.form.Elems
	base := float64(c.base)
	if base == 0 {
		base = float64(p.RopeBase)
	}
	t := make([]float32, 48+n)
	copy(t, p.Levels)
	copy(t[8:], p.Boundaries)
	for a := range 16 {
		sin, cos := math.Sincos((float64(a)+0.5)/16*2*math.Pi - math.Pi)
		t[16+a], t[32+a] = float32(cos), float32(sin)
	}
	for k := range n / 2 {
		w := math.Exp(-2 * float64(k) * math.Log(base) / float64(n))
		t[48+k] = float32(w)
		t[48+n/2+k] = float32(w - float64(float32(w)))
	}
	return t
}

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// one is the factor of a rotation, of which 0 stands for 1.
func one(v float32) float32 {
	if v == 0 {
		return 1
	}
	return v
}
