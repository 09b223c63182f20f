package shaders

// The parameter structs, as Kernel.Params names them. Sizes are in elements.
type (
	// UnaryParams: Func is a graph.Func, By multiplies its result; Cap is 0 for none.
	UnaryParams struct {
		Count uint32
		Func  uint32
		By    float32
		Cap   float32
	}

	// BinaryParams: each column of b serves Group columns of a.
	BinaryParams struct {
		Count uint32
		Group uint32
		Mul   uint32 // 0: add
	}

	// GluParams: Func is a graph.Func; Limit is 0 for none.
	GluParams struct {
		Count uint32
		Func  uint32
		Limit float32
	}

	// AffineParams: vectors of length 0 are not there.
	AffineParams struct {
		Count uint32
		Width uint32
		WLen  uint32
		BLen  uint32
	}

	// TemperatureParams are those of graph.Temperature.
	TemperatureParams struct {
		Count uint32
		Width uint32
		Every uint32
		Scale float32
	}

	// ColumnsParams: Width is x's; Count the elements of y.
	ColumnsParams struct {
		Count uint32
		Width uint32
		Group uint32
		First uint32
		Take  uint32
		Times uint32
		Tile  uint32
	}

	// ConcatParams: Count is the elements of y.
	ConcatParams struct {
		Count  uint32
		WidthA uint32
		WidthB uint32
		GroupA uint32
		GroupB uint32
	}

	// GatherParams: Count is the elements of y.
	GatherParams struct {
		Count uint32
		Width uint32
	}

	// PoolParams: Kind is a graph.PoolKind.
	PoolParams struct {
		Count uint32
		Width uint32
		Kind  uint32
	}

	// TopParams: Width is the values of a row; Listed is 1 for pairs of a value and
	// its number.
	TopParams struct {
		Width  uint32
		Count  uint32
		Listed uint32
	}

	// NormParams: Kind is a graph.NormKind; Add is 1 for x + r as the operand.
	NormParams struct {
		Width uint32
		Group uint32
		WLen  uint32
		BLen  uint32
		Kind  uint32
		Add   uint32
		Eps   float32
	}

	// RopeParams: HalfDim is the number of pairs of a head.
	RopeParams struct {
		Rows     uint32
		Heads    uint32
		HeadDim  uint32
		First    uint32
		HalfDim  uint32
		Adjacent uint32
		Scale    float32
	}

	// EmbedParams: Count is the number of ids, Rows of the table.
	EmbedParams struct {
		Count    uint32
		Cols     uint32
		Rows     uint32
		RowBytes uint32
		Scale    float32
	}

	// MatvecParams: w is [Rows][Cols], x [Batch][Cols]; Bias is 1 where there is one.
	MatvecParams struct {
		Cols     uint32
		Rows     uint32
		RowBytes uint32
		Batch    uint32
		Bias     uint32
	}

	// MatmulParams are those of MatvecParams.
	MatmulParams MatvecParams

	// ExpertParams: w is [matrices][Rows][Cols]. ByRoute is 1 for matrices that
	// route names, 0 for one a slot (heads); PerSlot is 1 where each slot has its
	// own part of x; bias is [matrices][Rows].
	ExpertParams struct {
		Cols     uint32
		Rows     uint32
		RowBytes uint32
		Used     uint32
		ByRoute  uint32
		PerSlot  uint32
		Bias     uint32
	}

	// KvLevelParams: Width is x's; Group heads of Dim values share a KV head. Each is the
	// channels of a sequence where each has its own, else 0.
	KvLevelParams struct {
		Count uint32
		Width uint32
		Dim   uint32
		Group uint32
		Query uint32
		Each  uint32
	}

	// KvShiftParams: Group of the Heads share a KV head; Each as in KvLevelParams.
	KvShiftParams struct {
		Each    uint32
		Heads   uint32
		Dim     uint32
		Group   uint32
		Window  uint32
		Scale   float32
		Sharpen float32
		Soften  float32
	}

	// KvStoreParams: values First to First+Dim of each head go to byte At of its
	// cell in a part of the cache, as cell_of in cells.h finds it. Side is the kv.Side
	// that counts what is saturated; Inspects is 1 for the launch that counts rows
	// with NaN or infinity.
	KvStoreParams struct {
		Side      uint32
		Inspects  uint32
		Part      uint32
		Late      uint32
		Exact     uint32
		Own       uint32
		Passing   uint32
		Sinks     uint32
		Dim       uint32
		First     uint32
		HeadDim   uint32
		KVHeads   uint32
		HeadBytes uint32
		At        uint32
	}

	// KvEncodeParams: as KvStoreParams, and the literal of the form: offsets in a
	// block of Elems values and Bytes bytes, the numbers of its scale rule, and how
	// far apart the vectors of the rotation lie.
	KvEncodeParams struct {
		Side       uint32
		Inspects   uint32
		Part       uint32
		Late       uint32
		Exact      uint32
		Own        uint32
		Passing    uint32
		Sinks      uint32
		Stride     uint32
		Dim        uint32
		First      uint32
		HeadDim    uint32
		KVHeads    uint32
		HeadBytes  uint32
		At         uint32
		Elems      uint32
		Bytes      uint32
		CodeAt     uint32
		HighAt     uint32
		ScaleAt    uint32
		MinAt      uint32
		ResAt      uint32
		ResBits    uint32
		SigmaAt    uint32
		RadiusAt   uint32
		AngleAt    uint32
		Zero       uint32
		Joint      uint32
		ZeroNan    uint32
		Floor      float32
		Outer      float32
		Forward    float32
		PolarFloor float32
		Lambda     float32
	}

	// KvTrellisParams: as KvEncodeParams, for one block of trellis codes.
	KvTrellisParams struct {
		Side      uint32
		Inspects  uint32
		Late      uint32
		Exact     uint32
		Stride    uint32
		Dim       uint32
		First     uint32
		HeadDim   uint32
		KVHeads   uint32
		HeadBytes uint32
		At        uint32
		CodeAt    uint32
		ScaleAt   uint32
		LevelsAt  uint32
		Forward   float32
		Unit      float32
	}

	// KvRepackParams: as KvTrellisParams; First is that of the list of pages, LaneAt the
	// first value of the block in an exact row, FirstValue in the head. Stride to Inverse
	// are for keys that each conversation levels.
	KvRepackParams struct {
		Side       uint32
		First      uint32
		Own        uint32
		Passing    uint32
		ExactBytes uint32
		ExactPack  uint32
		LaneAt     uint32
		KVHeads    uint32
		HeadBytes  uint32
		At         uint32
		CodeAt     uint32
		ScaleAt    uint32
		LevelsAt   uint32
		HeadDim    uint32
		FirstValue uint32
		Dim        uint32
		Stride     uint32
		Forward    float32
		Inverse    float32
		Unit       float32
	}

	// KvQueryParams: values First to First+Dim of a head become lanes from LaneAt on.
	KvQueryParams struct {
		Dim     uint32
		First   uint32
		HeadDim uint32
		Heads   uint32
		Lanes   uint32
		LaneAt  uint32
		Stride  uint32
		Scale   float32
		Factor  float32
	}

	// AttendParams: Group is query heads a KV head, SliceHeads those of a
	// threadgroup; DK and DV are lanes; Pack to Tail count where the kernel has no
	// constants for them; Window counts positions, 0 for
	// all; Levels are those of the form, from LevelsAt on in its table, in steps of
	// Unit; Cut is the values of a head that is cut into blocks, else 0. Own to SinkBytes say
	// where exact pages and sinks lie, in units of 64 bytes; 0 bytes for none. The
	// rest is graph.Attention's, the cache type's and the layout's.
	AttendParams struct {
		Heads         uint32
		KVHeads       uint32
		Group         uint32
		SliceHeads    uint32
		Parts         uint32
		DK            uint32
		DV            uint32
		Window        uint32
		Bidirectional uint32
		Scale         float32
		Cap           float32
		Sharpen       float32
		Soften        float32
		SparseV       float32
		Shifted       uint32
		Newest        uint32
		Sinks         uint32
		ExactTable    uint32
		KPack         uint32
		KBits         uint32
		KAffine       uint32
		KTail         uint32
		KHeadBytes    uint32
		KElems        uint32
		KBytes        uint32
		KCodeAt       uint32
		KHighAt       uint32
		KScaleAt      uint32
		KMinAt        uint32
		KResAt        uint32
		KResBits      uint32
		KTailAt       uint32
		KCut          uint32
		KLevels       uint32
		KLevelsAt     uint32
		KUnit         float32
		KExactPack    uint32
		KExactBytes   uint32
		KExactTail    uint32
		KOwn          uint32
		KOwnAt        uint32
		KPassingAt    uint32
		KSinkBytes    uint32
		VPack         uint32
		VBits         uint32
		VAffine       uint32
		VTail         uint32
		VHeadBytes    uint32
		VElems        uint32
		VBytes        uint32
		VCodeAt       uint32
		VHighAt       uint32
		VScaleAt      uint32
		VMinAt        uint32
		VTailAt       uint32
		VCut          uint32
		VLevels       uint32
		VLevelsAt     uint32
		VUnit         float32
		VExactPack    uint32
		VExactBytes   uint32
		VExactTail    uint32
		VOwn          uint32
		VOwnAt        uint32
		VPassingAt    uint32
		VSinkBytes    uint32
	}

	// AttendCombineParams: Lanes is the width of a part, Dim of a head of y, Size
	// the lanes of a rotation, Turned the lanes that
	// are turned back; Cut as in AttendParams; Sinks is 1 where there are some.
	AttendCombineParams struct {
		Heads   uint32
		Parts   uint32
		Lanes   uint32
		Size    uint32
		Dim     uint32
		Turned  uint32
		Cut     uint32
		Sinks   uint32
		Shifted uint32
		Inverse float32
	}
)

// TopStretch is the number of values of which a threadgroup of top finds the
// largest.
const TopStretch = 2048
