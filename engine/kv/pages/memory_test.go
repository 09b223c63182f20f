package pages

import (
	"encoding/binary"
	"fmt"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// memory holds a backend's cells and states in plain slices.
type memory struct {
	layout *layout.Layout
	rows   [][2][4][]byte // [layer][side][tier] of all cells
	states [][]byte       // [layer] of all slots
	copies int            // copies of packed cells
}

func newMemory(l *layout.Layout) *memory {
	m := &memory{layout: l, rows: make([][2][4][]byte, len(l.Layers)), states: make([][]byte, len(l.Layers))}
	for i := range l.Layers {
		y := &l.Layers[i]
		if y.Owns() {
			g := &l.Groups[y.Group]
			for _, s := range []kv.Side{kv.K, kv.V} {
				x := y.Side(s)
				m.rows[i][s] = [4][]byte{
					make([]byte, x.Bytes),
					make([]byte, (g.ExactPages+g.Passing)*kv.PageCells*x.ExactRow),
					make([]byte, max(l.Settings.Seqs, 1)*y.Exact.Pinned*x.PinnedRow),
					make([]byte, max(l.Settings.Seqs, 1)*x.SelfRow),
				}
			}
		}
		m.states[i] = make([]byte, y.StateBytes*int64(l.StateSlots()))
	}
	return m
}

func (m *memory) row(layer int, s kv.Side, p layout.Tier, cell int32) ([]byte, error) {
	n := m.RowBytes(layer, s, p)
	if cell < 0 || (int(cell)+1)*n > len(m.rows[layer][s][p]) || n == 0 {
		return nil, fmt.Errorf("cell %d of layer %d %v part %d is outside", cell, layer, s, p)
	}
	return m.rows[layer][s][p][int(cell)*n:][:n], nil
}

func (m *memory) RowBytes(layer int, s kv.Side, p layout.Tier) int {
	return m.layout.Layers[layer].Side(s).Row(p)
}

func (m *memory) ReadRow(dst []byte, layer int, s kv.Side, p layout.Tier, cell int32) error {
	row, err := m.row(layer, s, p, cell)
	copy(dst, row)
	return err
}

func (m *memory) WriteRow(layer int, s kv.Side, p layout.Tier, cell int32, src []byte) error {
	row, err := m.row(layer, s, p, cell)
	copy(row, src)
	return err
}

func (m *memory) CopyCells(group int, p layout.Tier, dst, src int32, n int) error {
	if p == layout.Packed {
		m.copies++
	}
	for _, i := range m.layout.Groups[group].Layers {
		for _, s := range []kv.Side{kv.K, kv.V} {
			for c := range int32(n) {
				if m.RowBytes(i, s, p) == 0 {
					continue
				}
				from, err := m.row(i, s, p, src+c)
				if err != nil {
					return err
				}
				if err := m.WriteRow(i, s, p, dst+c, from); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *memory) state(layer int, slot int32) ([]byte, error) {
	n := int(m.layout.Layers[layer].StateBytes)
	if slot < 0 || (int(slot)+1)*n > len(m.states[layer]) {
		return nil, fmt.Errorf("state %d of layer %d is outside", slot, layer)
	}
	return m.states[layer][int(slot)*n:][:n], nil
}

func (m *memory) CopyState(dst, src int32) error {
	for i := range m.states {
		from, err := m.state(i, src)
		if err != nil {
			return err
		}
		if err := m.WriteState(i, dst, from); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) ReadState(dst []byte, layer int, slot int32) error {
	s, err := m.state(layer, slot)
	copy(dst, s)
	return err
}

func (m *memory) WriteState(layer int, slot int32, src []byte) error {
	s, err := m.state(layer, slot)
	copy(s, src)
	return err
}

// mark writes a value into all rows of a position, different by layer and side. It
// writes the exact row if the batch's table has one. It writes the packed row
// unless a type packed by page has an exact row.
func (m *memory) mark(c *Cache, b *llm.Batch, span, pos int, v uint32) error {
	seq := b.Spans[span].Seq
	for i := range m.layout.Layers {
		y := &m.layout.Layers[i]
		if !y.Owns() {
			continue
		}
		exact := int32(-1)
		if len(b.Exact[y.Group]) > 0 {
			exact = cellOf(b.Exact[y.Group][span], pos)
		}
		for _, s := range []kv.Side{kv.K, kv.V} {
			x := y.Side(s)
			cells := [3]int32{cellOf(b.Tables[y.Group][span], pos), exact, c.PinnedCell(y.Group, seq, pos)}
			if x.PackedByPage() && exact >= 0 {
				cells[layout.Packed] = -1
			}
			for p, cell := range cells {
				if cell < 0 || x.Row(layout.Tier(p)) == 0 {
					continue
				}
				row, err := m.row(i, s, layout.Tier(p), cell)
				if err != nil {
					return err
				}
				fill(row, v, i, s, layout.Tier(p))
			}
		}
	}
	return nil
}

// pack packs what a batch requests, like a backend: from the exact rows, whose
// first four bytes are their value.
func (m *memory) pack(b *llm.Batch) error {
	for g, list := range b.Packs {
		var byPage []int
		for _, i := range m.layout.Groups[g].Layers {
			if y := &m.layout.Layers[i]; y.K.PackedByPage() || y.V.PackedByPage() {
				byPage = append(byPage, i)
			}
		}
		for _, pk := range list {
			for k, i := range byPage {
				if step := k * pk.Of / len(byPage); step < pk.From || step >= pk.To {
					continue
				}
				for _, s := range []kv.Side{kv.K, kv.V} {
					for c := range int32(kv.PageCells) {
						from, err := m.row(i, s, layout.Exact, pk.Exact*kv.PageCells+c)
						if err != nil {
							return err
						}
						to, err := m.row(i, s, layout.Packed, pk.Page*kv.PageCells+c)
						if err != nil {
							return err
						}
						fill(to, binary.LittleEndian.Uint32(from), i, s, layout.Packed)
					}
				}
			}
		}
	}
	return nil
}

// fill writes a pattern that depends on all arguments. In exact rows, the value
// itself comes first.
func fill(row []byte, v uint32, layer int, s kv.Side, p layout.Tier) {
	if p == layout.Exact {
		binary.LittleEndian.PutUint32(row, v)
		row = row[4:]
	}
	x := v*2654435761 ^ uint32(layer)<<8 ^ uint32(s)<<4 ^ uint32(p)
	for k := range row {
		x = x*1664525 + 1013904223
		row[k] = byte(x >> 24)
	}
}

// stateOf returns the recurrent state after the given values.
func stateOf(values []uint32, size int) []byte {
	x := uint32(17)
	for _, v := range values {
		x = x*31 + v
	}
	b := make([]byte, size)
	fill(b, x, 0, kv.K, layout.Packed)
	return b
}
