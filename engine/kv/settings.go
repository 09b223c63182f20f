package kv

// Want is the types a person asked for; nil is f16.
type Want struct{ K, V *Type }

// Switch is a setting that is on, off, or left to the rule of the types.
type Switch uint8

// The states of a Switch.
const (
	Auto Switch = iota
	On
	Off
)

// Settings is everything besides the types that decides a layout. The zero
// value is one sequence, the forks' automatic rules, and no strictness.
type Settings struct {
	Cells  int // cells that all sequences share, rounded up to pages
	Span   int // positions that a sequence can reach; 0: Cells
	Seqs   int // sequences; 0 counts as 1
	UBatch int // most rows one run adds; 0 counts as 512

	Policy          *int         // layer policy 0 to 7; nil: 7 where V is turbo2 and the model has 8 or more caches
	BoundaryBy      string       // "cache" (default): ordinals among layers that own a cache; "layer": raw layer numbers
	AutoAsymmetric  Switch       // K to q8_0 at 6 or more query heads per KV head; Auto is on
	SWABypass       Switch       // f16 in sliding-window layers; Auto is on for the tbq and amx families
	Temperature     Switch       // attention temperature of tbq keys; Auto is on
	Strict          bool         // every change of a choice is an error
	AutoBits        float64      // code bits a value on average, shared out over the caches by how much each matters; 0: off
	Each            []Want       // types by layer, before policies; nil: the same everywhere
	Calibration     *Calibration // of the model's keys; nil: none, or none yet
	Uncalibrated    bool         // there will be none: keys that want one calibrate themselves, or are q8_0
	SelfCalibrate   bool         // every conversation can measure its own keys where there is no calibration
	CalibratedLater bool         // the calibration that is missing will be measured for the next load
	InnerQ          InnerQ       // evens out the channels of keys that no calibration levels; zero: off
	Even            [][]Channels // its tables by layer and KV head; nil: not measured yet
	ExactWindow     *int         // newest positions that are kept exact too; nil: as the types want
	ExactSinks      *int         // first positions that are kept exact for good; nil: as the types want
	Checkpoints     int          // recurrent states kept to rewind to, over all sequences; 0: two a sequence, negative: none
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
