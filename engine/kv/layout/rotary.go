package layout

// Rotary describes the RoPE of a layer's keys. If it has no parts, keys do not
// depend on their position.
type Rotary struct {
	Parts  []RotaryPart
	Opaque bool // keys also depend on the position in another way
}

// RotaryPart is a range of columns of each head: pair j is rotated by the angle
// position·Freqs[j].
type RotaryPart struct {
	First    int // first column
	Freqs    []float32
	Adjacent bool // pairs are (2j, 2j+1) instead of (j, j+n/2)
}

// Pair returns the columns of pair j.
func (p *RotaryPart) Pair(j int) (a, b int) {
	if p.Adjacent {
		return p.First + 2*j, p.First + 2*j + 1
	}
	return p.First + j, p.First + j + len(p.Freqs)
}
