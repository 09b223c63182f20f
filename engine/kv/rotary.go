package kv

// Rotary says how a layer's keys were turned by their position. No parts: they
// do not depend on it.
type Rotary struct {
	Parts  []RotaryPart
	Opaque bool // they depend on it in another way, too
}

// RotaryPart is a run of columns of each head: pair j was turned by the angle
// position·Freqs[j].
type RotaryPart struct {
	First    int // column
	Freqs    []float32
	Adjacent bool // pairs (2j, 2j+1) rather than (j, j+n/2)
}

// Pair is the columns of pair j.
func (p *RotaryPart) Pair(j int) (a, b int) {
	if p.Adjacent {
		return p.First + 2*j, p.First + 2*j + 1
	}
	return p.First + j, p.First + j + len(p.Freqs)
}
