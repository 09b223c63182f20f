package kv

import "math/bits"

// Want is the requested types; nil stands for f16.
type Want struct{ K, V *Type }

// Switch is a setting that is on, off, or decided by the types.
type Switch uint8

// The states of a Switch.
const (
	Auto Switch = iota
	On
	Off
)

// Settings are everything besides the types that decides a layout. The zero
// value is one sequence, the forks' automatic rules, and no strictness.
type Settings struct {
	Cells  int // cells that all sequences share, rounded up to pages
	Span   int // positions that a sequence can reach; 0 for Cells
	Seqs   int // sequences; 0 stands for 1
	UBatch int // largest number of rows per run; 0 stands for 512

	Admitted bool // sequences are used only if Admits says so: exact pages are those of some, not of all

	Policy          *int         // layer policy 0 to 7; nil for 7 where V is turbo2 and the model has 8 or more caches
	BoundaryBy      string       // "cache" (default): ordinals among layers that own a cache; "layer": raw layer numbers
	AutoAsymmetric  Switch       // K to q8_0 at 6 or more query heads per KV head; Auto is on
	SWABypass       Switch       // f16 in sliding-window layers; Auto is on for the tbq and amx families
	Temperature     Switch       // attention temperature of tbq keys; Auto is on
	Strict          bool         // any change of a choice is an error
	AutoBits        float64      // average code bits a value, allocated to the caches by sensitivity; 0 for off
	Each            []Want       // types by layer, before policies; nil for the same everywhere
	Calibration     *Calibration // calibration of the model's keys; nil if missing so far
	Uncalibrated    bool         // there will be no calibration: keys that need one calibrate themselves, or are q8_0
	CalibratedLater bool         // the missing calibration is being measured for the next load
	SelfCalibrate   bool         // conversations can measure their own keys without a calibration
	InnerQ          InnerQ       // equalises key channels that no calibration normalises; zero for off
	Equalised       [][]Channels // InnerQ's tables by layer and KV head; nil if not measured yet
	ExactWindow     *int         // newest positions that are also kept exact; nil for the default of the types
	ExactSinks      *int         // first positions that are kept exact for good; nil for the default of the types
	Checkpoints     int          // recurrent states kept for rewinding, over all sequences; 0 for two per sequence, negative for none
}

func (s *Settings) ubatch() int {
	if s.UBatch <= 0 {
		return 512
	}
	return s.UBatch
}

func (s *Settings) checkpoints() int {
	if s.Checkpoints == 0 {
		return 2 * max(s.Seqs, 1)
	}
	return min(max(s.Checkpoints, 0), maxCheckpoints)
}

// Span returns the positions for which the keys of a context are calibrated: the next
// power of two, so that what was saved fits a context that is a little longer or
// shorter.
func Span(ctx int) int { return 1 << bits.Len(uint(max(ctx-1, 0))) }
