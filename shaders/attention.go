package shaders

import (
	"fmt"
)

// Attention is the attend kernel for a pair of caches.
type Attention struct {
	Kernel    *Kernel
	Constants Constants
	Params    AttendParams // the caller fills in Parts and the scalars of its op
	Heads     int          // query heads of one threadgroup
	Rows      int          // rows of one tile
}

// NewAttention chooses the queries of a threadgroup for group query heads a KV
// head and tiles of at most rows rows: as many as registers and shared memory
// hold, heads first. The grid is parts by Slices by tiles.
func NewAttention(k, v *Cache, heads, kvHeads, rows int) (*Attention, error) {
	if v.Lanes > 8*Find("attend").Group {
		return nil, fmt.Errorf("%w: heads of %d values, at most %d", ErrForm, v.Lanes, 8*Find("attend").Group)
	}
	group := heads / kvHeads
	most := 8
	room := func(n int) int { return 4 * (n*(k.Lanes+7)*(1+int(truth(k.HasResidual()))) + max(n*ChunkCells, 1024)) }
	for room(most) > maxShared && most > 1 {
		most /= 2
	}
	if room(most) > maxShared {
		return nil, fmt.Errorf("%w: heads of %d values need %d bytes of shared memory of %d", ErrForm, k.Lanes, room(most), maxShared)
	}
	a := &Attention{Kernel: Find("attend"), Heads: min(group, most)}
	a.Rows = max(1, min(rows, most/a.Heads))
	a.Constants = Constants{"HEADS": a.Heads, "ROWS": a.Rows, "DK": k.Lanes, "DV": v.Lanes, "K_RES": int(truth(k.HasResidual()))}
	k.reader("K", a.Constants)
	v.reader("V", a.Constants)
	a.Params = AttendParams{
		Heads: uint32(heads), KVHeads: uint32(kvHeads), Group: uint32(group), Parts: 1,
		KHeadBytes: uint32(k.HeadBytes), VHeadBytes: uint32(v.HeadBytes),
	}
	p := &a.Params
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

// Slices is the grid's second size.
func (a *Attention) Slices() int {
	p := &a.Params
	return int(p.KVHeads) * ((int(p.Group) + a.Heads - 1) / a.Heads)
}

// PartialFloats is the number of floats of partial for rows rows.
func (a *Attention) PartialFloats(rows int) int {
	return rows * int(a.Params.Heads) * int(a.Params.Parts) * (a.Constants["DV"] + 2)
}

// reader adds the constants of one side.
func (c *Cache) reader(side string, to Constants) {
	pack, _ := packing(c.form)
	to[side+"_PACK"], to[side+"_BITS"] = int(pack), c.form.Codes.Bits
	to[side+"_AFFINE"], to[side+"_TAIL"] = int(truth(c.form.Scale.Affine)), 0
	if c.tail != nil {
		to[side+"_TAIL"] = c.tail.Dim - (c.seg.Dim + c.tail.Dim - c.HeadDim)
	}
}

// tailAt is the byte offset of the tail in a cell.
func (c *Cache) tailAt() uint32 {
	if c.tail == nil {
		return 0
	}
	return uint32(c.tail.At)
}
