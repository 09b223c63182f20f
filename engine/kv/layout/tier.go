package layout

// Tier is one copy of a row. With an exact window, a page may be packed, exact,
// or both.
type Tier uint8

// The tiers. Each has its own cell numbers. Packed and exact cells are numbered by
// page, and pinned cells by sequence, with Layer.Exact.Pinned cells per
// sequence. Measured has one row per sequence, with the statistics of its
// SelfCalibration.
const (
	Packed Tier = iota
	Exact
	Pinned
	Measured
)
