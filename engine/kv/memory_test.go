package kv

import (
	"fmt"

	"godwit/engine/llm"
)

// memory is a backend's cells and states in plain slices.
type memory struct {
	layout *Layout
	rows   [][2][]byte // [layer][side] of all cells
	states [][]byte    // [layer] of all slots
	copies int
}

func newMemory(l *Layout) *memory {
	m := &memory{layout: l, rows: make([][2][]byte, len(l.Layers)), states: make([][]byte, len(l.Layers))}
	for i := range l.Layers {
		y := &l.Layers[i]
		if y.Owns() {
			for _, s := range []Side{K, V} {
				m.rows[i][s] = make([]byte, y.Side(s).Bytes)
			}
		}
		m.states[i] = make([]byte, y.StateBytes*int64(l.StateSlots()))
	}
	return m
}

func (m *memory) row(layer int, s Side, cell int32) ([]byte, error) {
	n := m.layout.Layers[layer].Side(s).RowBytes
	if cell < 0 || (int(cell)+1)*n > len(m.rows[layer][s]) || n == 0 {
		return nil, fmt.Errorf("cell %d of layer %d %v is outside", cell, layer, s)
	}
	return m.rows[layer][s][int(cell)*n:][:n], nil
}

func (m *memory) RowBytes(layer int, s Side, p Part) int {
	if p == Exact {
		return 0
	}
	return m.layout.Layers[layer].Side(s).RowBytes
}

func (m *memory) ReadRow(dst []byte, layer int, s Side, _ Part, cell int32) error {
	row, err := m.row(layer, s, cell)
	copy(dst, row)
	return err
}

func (m *memory) WriteRow(layer int, s Side, _ Part, cell int32, src []byte) error {
	row, err := m.row(layer, s, cell)
	copy(row, src)
	return err
}

func (m *memory) CopyCells(group int, dst, src int32, n int) error {
	m.copies++
	for _, i := range m.layout.Groups[group].Layers {
		for _, s := range []Side{K, V} {
			size := m.layout.Layers[i].Side(s).RowBytes
			for c := range int32(n) {
				if size == 0 {
					continue
				}
				from, err := m.row(i, s, src+c)
				if err != nil {
					return err
				}
				if err := m.WriteRow(i, s, Packed, dst+c, from); err != nil {
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

// mark writes a value into all rows of a position, different by layer and side.
func (m *memory) mark(c *Cache, seq llm.Seq, pos int, v uint32) error {
	for i := range m.layout.Layers {
		y := &m.layout.Layers[i]
		if !y.Owns() {
			continue
		}
		for _, s := range []Side{K, V} {
			if y.Side(s).RowBytes == 0 {
				continue
			}
			row, err := m.row(i, s, c.Cell(y.Group, seq, pos))
			if err != nil {
				return err
			}
			fill(row, v, i, s)
		}
	}
	return nil
}

// fill writes a pattern that depends on all arguments.
func fill(row []byte, v uint32, layer int, s Side) {
	x := v*2654435761 ^ uint32(layer)<<8 ^ uint32(s)<<4
	for k := range row {
		x = x*1664525 + 1013904223
		row[k] = byte(x >> 24)
	}
}

// stateOf is the recurrent state after the given values.
func stateOf(values []uint32, size int) []byte {
	x := uint32(17)
	for _, v := range values {
		x = x*31 + v
	}
	b := make([]byte, size)
	fill(b, x, 0, K)
	return b
}
