package kv

// Rotary describes the RoPE of a layer's keys. Without parts, keys do not
// depend on their position.
type Rotary struct {
	Parts  []RotaryPart
	Opaque bool // keys depend on the position in another way too
}

// RotaryPart is a range of columns of each head: pair j is rotated by the angle
// position·Freqs[j].
type RotaryPart struct {
	First    int // first column
	Freqs    []float32
	Adjacent bool // pairs (2j, 2j+1) rather than (j, j+n/2)
}

// Pair returns the columns of pair j.
func (p *RotaryPart) Pair(j int) (a, b int) {
	if p.Adjacent {
		return p.First + 2*j, p.First + 2*j + 1
	}
	return p.First + j, p.First + j + len(p.Freqs)
}
