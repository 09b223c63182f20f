package pages

import (
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// Rows is a backend's cache memory as encoded bytes, however the backend arranges
// it. Layers are indices in Layout.Layers. Cells are numbers in the pool of the
// layer's group.
type Rows interface {
	// RowBytes returns the size of an allocated row; 0 where nothing is stored.
	RowBytes(layer int, side kv.Side, tier layout.Tier) int
	ReadRow(dst []byte, layer int, side kv.Side, tier layout.Tier, cell int32) error
	WriteRow(layer int, side kv.Side, tier layout.Tier, cell int32, src []byte) error
}

// StateRows is a backend's memory of recurrent states, in addition to Rows, for
// models that have any.
type StateRows interface {
	ReadState(dst []byte, layer int, slot int32) error
	WriteState(layer int, slot int32, src []byte) error
}
