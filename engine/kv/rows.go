package kv

// Tier is one copy of a row. With an exact window, a page may be packed, exact,
// or both.
type Tier uint8

// The tiers. Each has its own cell numbers. Packed and exact cells are numbered by
// page, and pinned cells by sequence, with LayerLayout.Exact.Pinned cells per
// sequence. Measured has one row per sequence, with the statistics of its
// SelfCalibration.
const (
	Packed Tier = iota
	Exact
	Pinned
	Measured
)

// Rows is a backend's cache memory as encoded bytes, however the backend arranges
// it. Layers are indices in Layout.Layers. Cells are numbers in the pool of the
// layer's group.
type Rows interface {
	// RowBytes returns the size of an allocated row; 0 where nothing is stored.
	RowBytes(layer int, side Side, tier Tier) int
	ReadRow(dst []byte, layer int, side Side, tier Tier, cell int32) error
	WriteRow(layer int, side Side, tier Tier, cell int32, src []byte) error
}

// StateRows is a backend's memory of recurrent states, in addition to Rows, for
// models that have any.
type StateRows interface {
	ReadState(dst []byte, layer int, slot int32) error
	WriteState(layer int, slot int32, src []byte) error
}
