package layout

import (
	"math/bits"

	"godwit/engine/kv"
)

// Want holds the requested types; nil stands for f16.
type Want struct{ K, V *kv.Type }

// Switch is a setting that is on, off, or decided by the types.
type Switch uint8

// The states of a Switch.
const (
	Auto Switch = iota
	On
	Off
)

// Settings are the parameters of a layout other than the types. The zero value is
// one sequence, the automatic rules of the forks, and no strictness.
type Settings struct {
	Cells  int // cells that all sequences share, rounded up to pages
	Span   int // number of positions that a sequence can reach; 0 means Cells
	Seqs   int // number of sequences; 0 means 1
	UBatch int // largest number of rows per run; 0 means 512

	Admitted bool // sequences start only if Admits allows it, so there are exact pages for some sequences instead of all

	Policy          *int            // layer policy 0 to 7; nil for 7 where V is turbo2 and the model has 8 or more caches
	BoundaryBy      string          // "cache" (default) counts only layers that own a cache; "layer" counts all layers
	AutoAsymmetric  Switch          // K becomes q8_0 at 6 or more query heads per KV head; Auto is on
	SWABypass       Switch          // f16 in sliding-window layers; Auto is on for the tbq and amx families
	Temperature     Switch          // attention temperature of tbq keys; Auto is on
	Strict          bool            // any change of a choice is an error
	AutoBits        float64         // average code bits per value, allocated to the caches by sensitivity; 0 for off
	Each            []Want          // types by layer before policies; nil for the same in all layers
	Calibration     *Calibration    // calibration of the model's keys; nil if not measured yet
	Uncalibrated    bool            // there will be no calibration: keys that need one are calibrated by each conversation, or become q8_0
	CalibratedLater bool            // the missing calibration is being measured for the next load
	SelfCalibrate   bool            // conversations can measure their own keys without a calibration
	InnerQ          InnerQ          // equalises key channels that no calibration normalises; zero for off
	Equalised       [][]kv.Channels // InnerQ's tables by layer and KV head; nil if not measured yet
	ExactWindow     *int            // number of newest positions that are also kept in exact form; nil for the types' default
	ExactSinks      *int            // number of first positions that stay exact permanently; nil for the types' default
	Memory          int64           // bytes of one conversation's cells, which decide how many of its newest positions are exact; 0 for off
	Reach           int             // longest conversation for which Memory must be enough; 0 means Cells
	Undivided       int             // largest number of rows that must be read in one step, if there are such
	Checkpoints     int             // recurrent states kept for rewinding, over all sequences; 0 for two per sequence, negative for none
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

// Span returns the number of positions for which the keys of a context are
// calibrated. It is the next power of two, so that saved sequences fit a context
// that is slightly longer or shorter.
func Span(ctx int) int { return 1 << bits.Len(uint(max(ctx-1, 0))) }
