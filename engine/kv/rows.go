package kv

// Part says which copy of a row is meant: with an exact window a page may
// exist packed, exact, or both.
type Part uint8

// The parts. Their cells are numbered apart: those of packed and exact pages
// by page, sinks by sequence, Exact.Sinks of the layer each. Measured is one
// row a sequence: what its own calibration has counted (see Own).
const (
	Packed Part = iota
	Exact
	Sinks
	Measured
)

// Rows is a backend's cache memory, in the format's own bytes whatever its
// arrangement there. Layers are indices into Layout.Layers, cells lie in the
// pool of the layer's group.
type Rows interface {
	// RowBytes is the size of a row as the memory was allocated; 0 where
	// nothing is stored.
	RowBytes(layer int, side Side, part Part) int
	ReadRow(dst []byte, layer int, side Side, part Part, cell int32) error
	WriteRow(layer int, side Side, part Part, cell int32, src []byte) error
}

// StateRows is a backend's memory of recurrent states, beside Rows in models
// that have any.
type StateRows interface {
	ReadState(dst []byte, layer int, slot int32) error
	WriteState(layer int, slot int32, src []byte) error
}
