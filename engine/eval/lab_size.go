package eval

import (
	"slices"
)

// Size sets how much is measured.
type Size struct {
	Window      int // tokens of a chunk of text
	Chunks      int
	Every       int   // one prediction in this many is compared; 0: all
	Agree       int   // tokens decoded one at a time
	AgreeBehind int   // prompt tokens before the decoded tokens
	Distances   []int // distances of copied texts, in tokens
	CopyItems   int
	Lengths     []int // lengths of haystacks, in tokens
	Depths      []float64
	Shared      bool // put the facts of all depths into one text only, and not into separate texts too
	Trials      int
	Sums        int
	SumDepths   []int // tokens of text before the sums
	Runs        int   // how often a repeated sum is asked; its answers must be equal
	Turns       int
	TurnTokens  int
	SpeedDepths []int
	SpeedPrompt int
	SpeedGen    int
	SpeedRuns   int
}

// Quick is a size for a first impression. It takes minutes on a small model.
func Quick() Size {
	return Size{
		Window: 512, Chunks: 2, Agree: 192, Distances: []int{200, 600}, CopyItems: 8,
		Lengths: []int{512, 1024}, Depths: []float64{0, 0.5, 1}, Trials: 1, Sums: 9, SumDepths: []int{0}, Runs: 10,
		Turns: 4, TurnTokens: 24, SpeedDepths: []int{0, 1024}, SpeedPrompt: 128, SpeedGen: 16, SpeedRuns: 1,
	}
}

// Full is a size for results that can be published.
func Full() Size {
	return Size{
		Window: 512, Chunks: 8, Agree: 1024, Distances: []int{200, 500, 1000, 2000, 4000}, CopyItems: 12,
		Lengths: []int{512, 1024, 2048, 4096}, Depths: []float64{0, 0.25, 0.5, 0.75, 1}, Trials: 2, Sums: 60, SumDepths: []int{0}, Runs: 10,
		Turns: 10, TurnTokens: 64, SpeedDepths: []int{0, 1024, 4096}, SpeedPrompt: 256, SpeedGen: 32, SpeedRuns: 3,
	}
}

// fit reduces or removes sizes that do not fit the model's context.
func (s Size) fit(context int) Size {
	holds := func(extra int) func(int) bool { return func(n int) bool { return n+extra > context } }
	s.Window, s.Agree = min(s.Window, context), min(s.Agree, context)
	s.AgreeBehind = min(s.AgreeBehind, context-s.Agree)
	s.Distances = slices.DeleteFunc(slices.Clone(s.Distances), holds(640))
	s.Lengths = slices.DeleteFunc(slices.Clone(s.Lengths), holds(64))
	s.SumDepths = slices.DeleteFunc(slices.Clone(s.SumDepths), holds(sumTokens))
	s.SpeedDepths = slices.DeleteFunc(slices.Clone(s.SpeedDepths), holds(s.SpeedPrompt+s.SpeedGen+2))
	return s
}

// context returns the largest number of tokens that the tasks need in one
// sequence.
func (s *Size) context() int {
	n := max(s.Window, s.Agree+s.AgreeBehind, 512, s.Turns*(s.TurnTokens+48)+256)
	for _, d := range s.Distances {
		n = max(n, d+640)
	}
	for _, l := range s.Lengths {
		n = max(n, l+64)
	}
	for _, d := range s.SumDepths {
		n = max(n, d+sumTokens)
	}
	for _, d := range s.SpeedDepths {
		n = max(n, d+s.SpeedPrompt+s.SpeedGen+2)
	}
	return n
}

// weight returns the approximate share of the total time that a task takes.
func (s *Size) weight(t Task) float64 {
	switch t {
	case TaskKLD:
		return float64(s.Window * s.Chunks)
	case TaskAgree:
		return float64(4*s.Agree + s.AgreeBehind)
	case TaskCopy:
		n := 0
		for _, d := range s.Distances {
			n += d + s.CopyItems*120
		}
		return float64(n)
	case TaskNeedle:
		n := 0
		texts := len(s.Depths) + 1
		if s.Shared {
			texts = 1
		}
		for _, l := range s.Lengths {
			n += (l*texts + 100*len(s.Depths)) * s.Trials
		}
		return float64(n)
	case TaskArith:
		n := 0
		for _, d := range s.SumDepths {
			n += d + 60*(s.Sums+3*s.Runs)
		}
		return float64(n)
	case TaskTurns:
		return float64(2 * s.Turns * (5*s.TurnTokens + 30))
	}
	n := 0
	for _, d := range s.SpeedDepths {
		n += (s.SpeedRuns + 1) * (2*d + s.SpeedPrompt + 5*s.SpeedGen)
	}
	return float64(n)
}
