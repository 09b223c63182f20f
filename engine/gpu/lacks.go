package gpu

import (
	"fmt"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// Features that have no kernel, as they appear in errors.
const (
	lackALiBi    = "attention with a slope for each head (ALiBi)"
	lackRelative = "attention with relative positions"
	lackBoth     = "attention with a window to both sides"
	lackChunks   = "attention within chunks"
	lackOffset   = "a temperature with an offset"
	lackShare    = "experts that share a small one"
	lackExp      = "an exponential"
	lackScan     = "a selective scan (Mamba 1)"
	lackIndex    = "attention to chosen positions"
	lackSoftmax  = "a softmax of its own"
	lackRecur    = "a recurrence that decays by column"
)

// Lacks lists the features that a driver's devices have no kernel for.
func (d Driver) Lacks() []string {
	return []string{lackALiBi, lackRelative, lackBoth, lackChunks, lackOffset, lackShare, lackExp, lackScan, lackIndex, lackSoftmax, lackRecur}
}

// lacks returns the error for a feature that has no kernel.
func (p *program) lacks(what string) error {
	return fmt.Errorf("%w: %s, on %s", backend.ErrUnsupported, what, p.b.name())
}

// reach returns the maximum number of positions of a sequence in the cache.
func (p *program) reach() int {
	if len(p.sizes.Pages) == 0 {
		return p.capacity()
	}
	return slices.Max(p.sizes.Pages) * kv.PageCells
}

// attends returns an error if an attention uses a feature that has no kernel.
// The error names the feature.
func (p *program) attends(a *graph.Attention) error {
	switch {
	case a.Bias.ALiBi != 0:
		return p.lacks(lackALiBi)
	case a.Bias.Relative != nil:
		return p.lacks(lackRelative)
	case a.Bidirectional && a.Window > 0:
		return p.lacks(lackBoth)
	case a.Chunk > 0 && p.reach() > a.Chunk:
		return p.lacks(lackChunks)
	}
	return nil
}
