package graph

// Op is one kind of step. A backend is a type switch over the types below. In
// most ops, rows are independent of each other. The exceptions are Attend,
// ShortConv and DeltaNet, which look back along their sequence, and SelfAttend,
// Merge and Pool.
type Op interface{ op() }

// NormKind selects the divisor of Norm.
type NormKind uint8

// The kinds of Norm. Sources: arXiv 1910.07467 (RMS), 1607.06450 (Layer).
const (
	RMS   NormKind = iota // x / sqrt(mean(x²) + eps)
	Layer                 // (x - mean) / sqrt(variance + eps)
	L2                    // x / max(sqrt(sum(x²)), eps)
)

// Func is an element-wise function.
type Func uint8

// The element-wise functions.
const (
	Identity Func = iota
	SiLU          // x·sigmoid(x)
	GELU          // tanh form: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
	GELUErf       // 0.5·x·(1 + erf(x/√2))
	ReLU
	ReLU2 // relu(x)²
	Sigmoid
	Softplus // log(1 + eˣ)
	Tanh
	Exp       // eˣ
	GELUQuick // x·sigmoid(1.702·x)
)

// Gating is how Route turns router logits into expert weights.
type Gating uint8

// The kinds of Gating.
const (
	Softmax         Gating = iota // softmax over all experts, then choose
	SigmoidGate                   // sigmoid of each, then choose
	SoftmaxSelected               // choose by logit, then softmax over the chosen
)

type (
	// Input reads the rows that the batch supplies. They are the result of the
	// first part of a plan that was cut.
	Input struct{}

	// Embed looks up rows of W, by token or by position, and multiplies by Scale.
	Embed struct {
		W     *Weight
		Scale float32
		From  Lookup
	}

	// Linear computes x·Wᵀ + Bias. W is [cols, rows]; Bias may be nil.
	Linear struct{ W, Bias *Weight }

	// HeadLinear multiplies each head by its own matrix.
	// x is [heads·in], W is [in, out, heads], the result [heads·out].
	HeadLinear struct{ W *Weight }

	// Norm normalises each group of Group columns (0: the whole row). It then
	// multiplies by W and adds B, if they are not nil. W repeats over groups or
	// spans the row.
	Norm struct {
		Kind  NormKind
		W, B  *Weight
		Eps   float32
		Group int
	}

	// Affine computes x·W + B with vectors that repeat along the row. Either
	// vector may be nil.
	Affine struct{ W, B *Weight }

	// Rope rotates pairs of each head of HeadDim columns. For pair i, the angle is
	// position·Freqs[i], and the result is multiplied by Scale. The rotated part
	// begins at column First of the head and is 2·len(Freqs) wide. With Axes,
	// coordinate Axes[i] of the row is used instead of the position.
	Rope struct {
		HeadDim, First int
		Freqs          []float32
		Scale          float32
		Adjacent       bool    // pairs (2i, 2i+1) rather than (i, i+n/2)
		Axes           []uint8 // coordinate for each pair: time, row or column of the token; nil for the position
	}

	// Temperature multiplies by 1 + Scale·ln(1 + ⌊(position+Offset)/Every⌋), so
	// that queries grow with the length of their context.
	Temperature struct {
		Every  int
		Scale  float32
		Offset int
	}

	// Attend writes k and v to the cache of Layer and attends from q.
	Attend struct{ Attention }

	// SelfAttend attends from q to the k and v of the same batch, in both
	// directions and without a cache. A row sees the rows of its span, or with
	// Windowed the rows of its window of the batch. All three operands are
	// [Heads·Dim].
	SelfAttend struct {
		Heads, Dim int
		Scale      float32
		Windowed   bool
	}

	// Merge makes one output row from Rows adjacent rows of the batch, starting
	// at each output row. It joins their columns, or with Mean computes their
	// mean.
	Merge struct {
		Rows int
		Mean bool
	}

	// Clamp limits every element to the range from Low to High.
	Clamp struct{ Low, High float32 }

	// Supplied works on the rows whose embedding the batch supplies. It replaces
	// such a row by part number Part of the embedding or, with Add, adds the part
	// to the row. Rows of tokens stay unchanged.
	Supplied struct {
		Part int
		Add  bool
	}

	// Add sums two values. Mul multiplies them column by column. If the second
	// operand of Mul is narrower, each of its columns multiplies a group of
	// columns.
	Add struct{}
	Mul struct{}

	// Scale multiplies by a constant.
	Scale struct{ By float32 }

	// Softcap computes Cap·tanh(x/Cap).
	Softcap struct{ Cap float32 }

	// Act applies a function to every element.
	Act struct{ F Func }

	// Glu computes F(gate)·up. With Limit > 0, it is the clamped form of
	// gpt-oss: gate ≤ Limit, |up| ≤ Limit, gate·sigmoid(1.702·gate)·(up + 1).
	Glu struct {
		F     Func
		Limit float32
	}

	// Slice takes columns [First, First+Take) of every group of Group columns.
	Slice struct{ Group, First, Take int }

	// Concat joins, group by group, GroupA columns of the first and GroupB of
	// the second operand. An operand with one group is repeated.
	Concat struct{ GroupA, GroupB int }

	// Repeat repeats each group of Group columns Times times. With Tile, the
	// whole row repeats, otherwise each group in place.
	Repeat struct {
		Group, Times int
		Tile         bool
	}

	// Gather keeps the output rows.
	Gather struct{}

	// Route chooses Used of the experts. The result is [ids, weights]: Used
	// ids as floats, then Used weights.
	Route struct{ Routing }

	// ExpertLinear applies the chosen experts' matrices. Operands: x, route. W
	// is [cols, rows, experts]. x is [cols], or [used·cols] if it differs per
	// expert, and the result is [used·rows]. Bias is [rows, experts] or nil.
	ExpertLinear struct{ W, Bias *Weight }

	// ExpertSum computes the weighted sum of the experts' results. Operands: x,
	// route.
	ExpertSum struct{ Used int }

	// ExpertScale multiplies each chosen expert's part by W[id]. Operands: x, route.
	ExpertScale struct {
		W    *Weight
		Used int
	}

	// ShortConv is a causal depthwise convolution along the sequence, followed
	// by F. W is [kernel, width]. State is [kernel-1][width], the rows before
	// the next one, oldest first.
	ShortConv struct {
		W, Bias *Weight
		F       Func
		State   int
	}

	// DeltaNet is the gated delta rule, with one matrix state per value head.
	// Operands: q, k [heads·dim], v [valueHeads·dim], g (log decay) and beta
	// [valueHeads]. Value head h reads key head h mod KeyHeads, or with Grouped
	// h/(ValueHeads/KeyHeads). State is [value head][key][value]. Plain omits
	// the correction by the state's present output for the key, which gives
	// Mamba-2's scan. Sources: arXiv 2412.06464, 2405.21060.
	DeltaNet struct {
		KeyHeads, ValueHeads, KeyDim, ValueDim int
		Scale                                  float32 // factor of q
		Grouped, Plain                         bool
		State                                  int
	}

	// Pool reduces each sequence to one row.
	Pool struct{ Kind PoolKind }
)

// Lookup selects how Embed chooses a row.
type Lookup uint8

// The lookups.
const (
	ByToken Lookup = iota
	ByPosition
	ByZero // always the first row
)

// PoolKind is how Pool reduces a sequence.
type PoolKind uint8

// The kinds of Pool.
const (
	PoolMean PoolKind = iota
	PoolFirst
	PoolLast
)

// Attention is softmax(scale·QKᵀ)V for one layer. Q is [heads·headDim]. If k
// and v are None, the layer reads the cache of an earlier layer, Share, as that
// layer wrote it. Sources: arXiv 1706.03762 eq. 1; grouped heads, arXiv
// 2305.13245.
type Attention struct {
	Layer          int
	Share          int // layer whose cache is read if k is None
	Heads, KVHeads int
	DimK, DimV     int
	Scale          float32
	Softcap        float32 // scores are bounded to ±Softcap by tanh; 0 for no bound
	Window         int     // positions that a row sees, including its own; 0 for all
	SinkLogits     *Weight // one extra logit per head, or nil
	MLA            bool    // V is the first DimV columns of K's row, and v is None
	RopeBase       float32 // RoPE base of the keys, for types that store polar parts
	Bidirectional  bool    // no causal mask: rows see all of their sequence in the batch
	Chunk          int     // rows see only their own chunk of this many positions; 0 for all
	Bias           Bias    // added to the scaled scores
	Tiles          bool    // rows of a picture's tile see the whole tile
}

// Routing defines how Route chooses.
type Routing struct {
	Experts, Used int
	Gating        Gating
	Bias          *Weight // added to the scores for the choice only, not to the weights; may be nil
	Normalise     bool    // divide the chosen weights by their sum
	Scale         float32 // factor of the weights; 0 means 1
	Groups        int     // number of groups of a group-limited choice; 0 for none
	UsedGroups    int     // number of groups kept; a group's score is the sum of its two best experts' scores
	// Share is the number of consecutive experts that share one small expert. A
	// chosen expert's index divided by Share is the index of the small expert,
	// whose weight applies. 0 means 1.
	Share int
}

func (Input) op()        {}
func (Embed) op()        {}
func (Linear) op()       {}
func (HeadLinear) op()   {}
func (Norm) op()         {}
func (Affine) op()       {}
func (Rope) op()         {}
func (Temperature) op()  {}
func (Attend) op()       {}
func (SelfAttend) op()   {}
func (Merge) op()        {}
func (Clamp) op()        {}
func (Supplied) op()     {}
func (Add) op()          {}
func (Mul) op()          {}
func (Scale) op()        {}
func (Softcap) op()      {}
func (Act) op()          {}
func (Glu) op()          {}
func (Slice) op()        {}
func (Concat) op()       {}
func (Repeat) op()       {}
func (Gather) op()       {}
func (Route) op()        {}
func (ExpertLinear) op() {}
func (ExpertSum) op()    {}
func (ExpertScale) op()  {}
func (ShortConv) op()    {}
func (DeltaNet) op()     {}
func (Pool) op()         {}
