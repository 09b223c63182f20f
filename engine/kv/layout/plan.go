package layout

import (
	"godwit/engine/kv"
	"godwit/engine/kv/internal/sat"
)

// Plan is the layout as printed by `kv plan --json` and GET /api/kv. Keys are
// only ever added.
type Plan struct {
	Model    string      `json:"model"`
	Ctx      int         `json:"ctx"`
	Wanted   PlanWanted  `json:"wanted"`
	Policy   int         `json:"policy"`
	Layers   []PlanLayer `json:"layers"`
	Bytes    int64       `json:"bytes"`
	BytesF16 int64       `json:"bytes_f16"`
	// PassingBytes is the part of Bytes for exact pages that exist for one batch
	// only. All layers share them.
	PassingBytes int64 `json:"passing_bytes"`
	// ExactAlone is the size of the exact tier of all layers with one sequence.
	ExactAlone int64    `json:"exact_alone"`
	StateBytes int64    `json:"state_bytes"`
	Events     []string `json:"events"`
	// Memory is the number of bytes of one conversation that decides its exact window,
	// and Along is the result; 0 and empty for a fixed window.
	Memory int64      `json:"memory"`
	Along  []PlanStep `json:"along"`
	// Trained is the longest context that the model was made for, RoPE scaling
	// included; 0: unknown.
	Trained int `json:"trained"`
	// Draft is the plan of the model that proposes tokens; nil for none.
	Draft *Plan `json:"draft,omitempty"`
}

// PlanStep is a conversation of some length in a cache with a memory for each
// conversation.
type PlanStep struct {
	Tokens int   `json:"tokens"` // length of the conversation
	Exact  int   `json:"exact"`  // newest tokens that its last row reads in exact form, where layers see all
	Bytes  int64 `json:"bytes"`  // bytes of what that row reads, packed pages included
}

// PlanWanted holds the requested types.
type PlanWanted struct {
	K string `json:"k"`
	V string `json:"v"`
}

// PlanLayer is one layer that reads a cache.
type PlanLayer struct {
	Layer   int      `json:"layer"`
	K       PlanSide `json:"k"`
	V       PlanSide `json:"v"`
	SparseV SparseV  `json:"sparse_v"`
	KVHeads int      `json:"kv_heads"`
	Window  int      `json:"window"`
	Cells   int      `json:"cells"`

	// The newest and the first positions that are also kept exact.
	ExactWindow int `json:"exact_window"`
	ExactSinks  int `json:"exact_sinks"`
}

// PlanSide is K or V of a layer. Sizes are in bytes: RowBytes of one token,
// Bytes of all tiers, ExactBytes of the exact tier.
type PlanSide struct {
	Wanted   string `json:"wanted"`
	Active   string `json:"active"`
	Reason   string `json:"reason"`
	Bytes    int64  `json:"bytes"`
	HeadDim  int    `json:"head_dim"`
	Padded   int    `json:"padded"`
	RowBytes int    `json:"row_bytes"`

	Exact      string `json:"exact"` // form of exact pages; empty for none
	ExactBytes int64  `json:"exact_bytes"`

	// Saturated counts blocks whose scale was infinite or NaN and was stored as the
	// largest f16 or as 0.
	Saturated int64 `json:"saturated"`

	// Channels says how the channels of the keys are normalised: "calibrated",
	// "self-calibrated", "innerq", or empty.
	Channels string `json:"channels"`
	// Sensitivity is the divergence from f16, in nats, if only this cache uses the
	// fewest bits; 0 if not measured.
	Sensitivity float64 `json:"sensitivity"`
}

// SparseV counts V rows whose weight was tested, and the rows that were skipped.
type SparseV struct {
	Considered int64 `json:"considered"`
	Skipped    int64 `json:"skipped"`
}

// NewPlan describes a layout for a model and a context of ctx tokens.
func NewPlan(l *Layout, model string, ctx int) Plan {
	p := Plan{
		Model: model, Ctx: ctx, Wanted: PlanWanted{l.Want.K.Name, l.Want.V.Name}, Policy: l.Policy,
		Layers: []PlanLayer{}, Events: []string{}, Along: []PlanStep{},
		Bytes: l.Bytes(), BytesF16: l.BytesF16(), StateBytes: l.StateTotal(),
		PassingBytes: sat.Add(l.Passing[kv.K], l.Passing[kv.V]), ExactAlone: l.exactAlone(),
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		if y.K.Active == nil {
			continue
		}
		p.Layers = append(p.Layers, PlanLayer{
			Layer: y.Layer, K: planSide(&y.K), V: planSide(&y.V),
			KVHeads: y.KVHeads, Window: y.Window, Cells: l.Groups[y.Group].Cells(),
			ExactWindow: y.Exact.at(ctx - 1), ExactSinks: y.Exact.Pinned,
		})
	}
	if b := l.Budget(); b != nil {
		p.Memory = b.Bytes
		for _, n := range alongs(ctx) {
			p.Along = append(p.Along, PlanStep{Tokens: n, Exact: b.Window(n - 1), Bytes: b.reads(n)})
		}
	}
	for _, e := range l.Events {
		p.Events = append(p.Events, e.String())
	}
	return p
}

func planSide(s *Side) PlanSide {
	p := PlanSide{
		Wanted: s.Wanted.Name, Active: s.Active.Name, Reason: s.Reason, Bytes: sat.Add(s.Bytes, s.ExactBytes),
		HeadDim: s.HeadDim, Padded: s.Padded, RowBytes: s.RowBytes, ExactBytes: s.ExactBytes, Sensitivity: s.Sense,
	}
	if s.Exact != nil {
		p.Exact = s.Exact.Name
	}
	switch {
	case s.Equalised:
		p.Channels = "innerq"
	case s.SelfCalibrated:
		p.Channels = "self-calibrated"
	case s.Channels != nil:
		p.Channels = "calibrated"
	}
	return p
}

// String returns the event as one line.
func (e Event) String() string {
	line := e.Text
	for _, a := range e.Attrs {
		line += " " + a.String()
	}
	return line
}

// BytesF16 returns the size of the same cells in f16 without padding.
func (l *Layout) BytesF16() int64 {
	var n int64
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		values := y.K.HeadDim
		if !y.V.View {
			values += y.V.HeadDim
		}
		n = sat.Add(n, sat.Mul(int64(2*values*y.KVHeads), l.Groups[y.Group].Cells()))
	}
	return n
}

// alongs returns the lengths at which a plan of ctx tokens shows the exact window: the
// ends of pages, and ctx.
func alongs(ctx int) (list []int) {
	const steps = 64
	for i := range steps {
		n := min(PagesOf(ctx*(i+1)/steps)*kv.PageCells, ctx)
		if n > 0 && (len(list) == 0 || n > list[len(list)-1]) {
			list = append(list, n)
		}
	}
	return list
}
