package kv

// Pair names the cache types of K and V.
type Pair struct {
	K string `json:"k"`
	V string `json:"v"`
}

func (p Pair) String() string {
	if p.K == p.V {
		return p.K
	}
	return p.K + " + " + p.V
}

// Pairs returns the pairs that the quality lab compares: the practical choices,
// and one complete family down to its fewest bits to show the whole range. The
// first pair is the base of all comparisons.
func Pairs() []Pair {
	return []Pair{
		{"f16", "f16"},
		{"q8_0", "q8_0"},
		{"q8_0", "turbo4"},
		{"q8_0", "turbo3"},
		{"q8_0", "turbo2"},
		{"q4_0-rot", "q4_0-rot"},
		{"turbo4", "turbo4"},
		{"turbo4", "turbo3"},
		{"turbo3", "turbo3"},
		{"turbo2", "turbo2"},
		{"gw4", "gw4"},
		{"gw4", "gw3"},
		{"gw3", "gw3"},
		{"gw2", "gw2"},
		{"tbq4", "tbq4"},
		{"tbq3", "tbq3"},
	}
}
