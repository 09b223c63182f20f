package shaders

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"godwit/engine/dtype"
	"godwit/engine/kv"
)

// ErrForm is wrapped by errors about cache types that no kernel supports.
var ErrForm = errors.New("no kernel for this form of cache")

// Pack is how a kernel finds the values of a row.
type Pack int

// The packings, with the numbers in form.h.
const (
	F32Values Pack = iota
	F16Values
	BF16Values
	Int8Codes
	StreamCodes
	PlaneCodes
	HalfCodes
	CyclicCodes
)

// ChunkCells is the number of positions whose softmax attend computes together. A
// part is a whole number of these chunks.
const ChunkCells = 512

// maxShared is the number of bytes of shared memory for attend's large arrays.
// The rest of the 32 KiB is for its small arrays.
const maxShared = 29 << 10

// Cache is one side of a layer's cache as the kernels see it: a cache type at a
// head size. All its data comes from the type's literal. A head has one form,
// or is divided into trellis blocks that may be followed by f16 values.
type Cache struct {
	HeadDim   int // number of values per head
	Lanes     int // number of values in the rotated domain, including padding
	HeadBytes int // number of bytes per head in one cell

	// SelfCalibrated reports whether packed keys are normalised with each
	// conversation's own calibration. Exact keys are not normalised, so they need
	// other queries.
	SelfCalibrated bool

	// Exact and Pinned are the forms of those tiers, in the same rotated
	// domain. Each is nil if there is no such tier.
	Exact, Pinned *Cache

	form *kv.Type // form of the first segment
	segs []kv.Segment
	tail *kv.Segment
	cut  int // number of values that are divided into trellis blocks
	base float32
	view bool
}

// Launch is a kernel with the data that it needs from a cache type. Its grid is
// X by heads by rows of the batch, unless the method that returns it documents
// another grid.
type Launch struct {
	Kernel    *Kernel
	Constants Constants
	Params    []byte
	Table     []float32 // content of the argument form
	X         uint32
}

// NewCache describes a type at a head size. ropeBase is the base of the keys' RoPE,
// or 0 for the type's default.
func NewCache(t *kv.Type, headDim int, ropeBase float32) (*Cache, error) {
	segs := t.Segments(headDim)
	c := &Cache{HeadDim: headDim, Lanes: t.Padded(headDim), HeadBytes: t.RowBytes(headDim), segs: segs, form: segs[0].Form, base: ropeBase}
	if n := len(segs) - 1; n > 0 && segs[n].Form.Float && segs[n].Form.Rotation.Size == 0 {
		c.segs, c.tail = segs[:n], &segs[n]
		if c.tail.Form.Stored != dtype.F16 || c.tail.First%c.group() != 0 {
			return nil, fmt.Errorf("%w: %s has a tail that is not f16", ErrForm, t.Name)
		}
	}
	if _, err := packing(c.form); err != nil {
		return nil, err
	}
	for i := range c.segs[1:] {
		if !c.alike(c.segs[i+1].Form) {
			return nil, fmt.Errorf("%w: %s is made of several forms", ErrForm, t.Name)
		}
	}
	if c.cyclic() {
		for _, s := range c.segs {
			c.cut += s.Dim
		}
	}
	if c.cyclic() && !c.greedy() {
		return nil, fmt.Errorf("%w: %s is not cut into its largest blocks first", ErrForm, t.Name)
	}
	return c, nil
}

// Beside adds the forms of the exact tiers. A nil form adds no tier.
func (c *Cache) Beside(exact, pinned *kv.Type) (err error) {
	if exact != nil {
		if c.Exact, err = NewCache(exact, c.HeadDim, c.base); err != nil {
			return err
		}
		if p, _ := packing(c.Exact.form); p != F16Values && p != Int8Codes {
			return fmt.Errorf("%w: exact pages in %s", ErrForm, exact.Name)
		}
	}
	if pinned != nil {
		c.Pinned, err = NewCache(pinned, c.HeadDim, c.base)
	}
	return err
}

// cyclic reports whether the codes are trellis codes.
func (c *Cache) cyclic() bool { return !c.form.Float && c.form.Codes.Packing == kv.Cyclic }

// alike reports whether a later segment is a smaller version of the first one, so
// that both can use one table.
func (c *Cache) alike(f *kv.Type) bool {
	a, b := &c.form.Rotation, &f.Rotation
	prefix := func(a, b []float32) bool { return len(b) <= len(a) && slices.Equal(a[:len(b)], b) }
	return f.Float == c.form.Float && f.Stored == c.form.Stored && f.Residual == nil && f.Polar == nil &&
		f.Codes.Packing == c.form.Codes.Packing && f.Codes.Bits == c.form.Codes.Bits && f.Codes.At == c.form.Codes.At &&
		slices.Equal(f.Codes.Levels, c.form.Codes.Levels) && f.Scale == c.form.Scale && b.Size <= a.Size &&
		prefix(a.Pre, b.Pre) && prefix(a.Mid, b.Mid) && prefix(a.Post, b.Post)
}

// greedy reports whether cut_block finds the blocks of this cache.
func (c *Cache) greedy() bool {
	left := c.cut
	for i, s := range c.segs {
		n := max(32, min(256, 1<<(bits.Len(uint(left))-1)))
		if s.Form.Elems != n || s.Blocks != 1 || s.Dim < n && i < len(c.segs)-1 {
			return false
		}
		left -= s.Dim
	}
	return left == 0
}

// View returns V for a cache whose V is the first dim values of K's rows.
func (c *Cache) View(dim int) *Cache {
	v := *c
	v.HeadDim, v.view, v.Lanes = dim, true, dim
	last := c.segs[len(c.segs)-1]
	if dim <= last.First+last.Dim {
		v.tail, v.segs, v.Lanes = nil, nil, 0
		for _, s := range c.segs {
			if s.First < dim {
				n := max(s.Form.Elems, s.Form.Rotation.Size, 1)
				s.Dim = min(s.Dim, dim-s.First)
				v.segs = append(v.segs, s)
				v.Lanes += (s.Dim + n - 1) / n * n
			}
		}
	}
	if c.Exact != nil {
		v.Exact = c.Exact.View(dim)
	}
	if c.Pinned != nil {
		v.Pinned = c.Pinned.View(dim)
	}
	return &v
}

// packing returns the Pack of a simple form.
func packing(f *kv.Type) (Pack, error) {
	floats := map[dtype.Type]Pack{dtype.F32: F32Values, dtype.F16: F16Values, dtype.BF16: BF16Values}
	codes := map[kv.Packing]Pack{
		kv.Stream: StreamCodes, kv.Planes: PlaneCodes, kv.Halves: HalfCodes, kv.Int8: Int8Codes, kv.Cyclic: CyclicCodes,
	}
	from, ok := floats[f.Stored], f.Float && (f.Rotation.Size == 0 || f.Stored == dtype.F16)
	if !f.Float {
		from, ok = codes[f.Codes.Packing]
	}
	if !ok || !f.Float && (f.Codes.Bits > 5 && from != Int8Codes || f.Elems%8 != 0) {
		return 0, fmt.Errorf("%w: %s", ErrForm, f.Name)
	}
	return from, nil
}

// group returns the number of values that are packed together.
func (c *Cache) group() int { return max(c.form.Elems, c.form.Rotation.Size, 1) }

// rotations returns the number of transforms in the rotation.
func (c *Cache) rotations() int {
	switch r := &c.form.Rotation; {
	case r.Size == 0:
		return 0
	case r.Mid == nil:
		return 1
	}
	return 2
}

// residual returns 1 for signs of the values, 2 for signs of a projection, and
// 0 if scores do not use a residual.
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

// PackedByPage reports whether rows are packed a page at a time from their exact
// form.
func (c *Cache) PackedByPage() bool { return c.cyclic() && c.Exact != nil }

// selfCalibrated returns c for keys that each conversation normalises, or nil
// if the type does not need calibration.
func (c *Cache) selfCalibrated() *Cache {
	if !c.form.Normalised || !c.PackedByPage() {
		return nil
	}
	self := *c
	self.SelfCalibrated = true
	return &self
}

// second returns how attend uses the second vector of a query: 0 if it does
// not, 1 for the signs of a residual, and 2 for exact rows.
func (c *Cache) second() int {
	switch {
	case c.HasResidual():
		return 1
	case c.SelfCalibrated:
		return 2
	}
	return 0
}

// Rotates reports whether queries need kv_query before attend. Otherwise attend
// reads them directly.
func (c *Cache) Rotates() bool { return c.rotations() > 0 || c.Lanes != c.HeadDim }

// Combine returns the launch that merges the parts of a row. Its grid is heads
// by rows. sinkLogits is 1 if each head has a sink logit. shifted is set if
// scores lack the product with the keys' mean.
func (c *Cache) Combine(heads, parts, sinkLogits int, shifted bool) Launch {
	p := AttendCombineParams{
		Heads: uint32(heads), Parts: uint32(parts), Lanes: uint32(c.Lanes), Dim: uint32(c.HeadDim), Sinks: uint32(sinkLogits), Shifted: truth(shifted), Inverse: one(c.form.Rotation.Inverse),
	}
	p.Size = 1
	if c.rotations() > 0 {
		p.Size, p.Turned, p.Cut = uint32(c.group()), uint32(c.Lanes), uint32(c.cut)
		if c.tail != nil {
			p.Turned -= uint32(c.tail.Dim)
		}
	}
	return Launch{
		Kernel: Find("attend_combine"), Params: Bytes(&p), Table: c.Table(),
		Constants: Constants{"LANES": laneClass(c.Lanes), "TURNS": c.rotations()},
	}
}

// tableVectors is the offset of the vectors in a table, PRE in form.h.
const tableVectors = 64

// Table returns the content of the kernels' argument form: 32 levels, 32
// boundaries, the vectors of the rotation and of the residual, and the polar
// data or the levels of a trellis.
func (c *Cache) Table() []float32 {
	f, size := c.form, c.group()
	t := make([]float32, tableVectors+4*size)
	if !c.cyclic() {
		copy(t, f.Codes.Levels)
		copy(t[32:], f.Codes.Boundaries)
	}
	vectors := [][]float32{f.Rotation.Pre, f.Rotation.Mid, f.Rotation.Post, nil}
	if f.Residual != nil {
		vectors[3] = f.Residual.Signs
	}
	for i, v := range vectors {
		part := t[tableVectors+i*size:][:size]
		for j := range part {
			part[j] = 1
		}
		copy(part, v)
	}
	if f.Polar != nil {
		t = append(t, c.polar()...)
	}
	if c.cyclic() {
		t = append(t, f.Codes.Levels...)
	}
	return t
}

// levelsAt returns the offset of the levels in the table.
func (c *Cache) levelsAt() uint32 {
	if c.cyclic() {
		return uint32(tableVectors + 4*c.group())
	}
	return 0
}

// polar returns the table for polar.h.
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

// one returns a rotation's factor. 0 stands for 1.
func one(v float32) float32 {
	if v == 0 {
		return 1
	}
	return v
}
