package shaders

// The parameter structs that Kernel.Params names. Sizes are in elements. In
// most structs, Count is the number of elements of the result.
type (
	// UnaryParams are the parameters of unary. Func is a graph.Func, and By
	// multiplies its result. Cap is 0 if there is no cap.
	UnaryParams struct {
		Count uint32
		Func  uint32
		By    float32
		Cap   float32
	}

	// BinaryParams are the parameters of binary. Each column of b is used for
	// Group columns of a.
	BinaryParams struct {
		Count uint32
		Group uint32
		Mul   uint32 // 0 selects addition
	}

	// GluParams are the parameters of glu. Func is a graph.Func. Limit is 0 if
	// there is no limit.
	GluParams struct {
		Count uint32
		Func  uint32
		Limit float32
	}

	// AffineParams are the parameters of affine. WLen or BLen is 0 if the
	// vector is absent.
	AffineParams struct {
		Count uint32
		Width uint32
		WLen  uint32
		BLen  uint32
	}

	// TemperatureParams are the parameters of temperature. Every and Scale are
	// those of graph.Temperature.
	TemperatureParams struct {
		Count uint32
		Width uint32
		Every uint32
		Scale float32
	}

	// ColumnsParams are the parameters of columns. Width is the width of x, and
	// Count is the number of elements of y.
	ColumnsParams struct {
		Count uint32
		Width uint32
		Group uint32
		First uint32
		Take  uint32
		Times uint32
		Tile  uint32
	}

	// ConcatParams are the parameters of concat. Count is the number of
	// elements of y.
	ConcatParams struct {
		Count  uint32
		WidthA uint32
		WidthB uint32
		GroupA uint32
		GroupB uint32
	}

	// GatherParams are the parameters of gather. Count is the number of
	// elements of y.
	GatherParams struct {
		Count uint32
		Width uint32
	}

	// PoolParams are the parameters of pool. Kind is a graph.PoolKind.
	PoolParams struct {
		Count uint32
		Width uint32
		Kind  uint32
	}

	// TopParams are the parameters of top. Width is the number of values per
	// row. Listed is 1 if the values are pairs of a value and its number.
	TopParams struct {
		Width  uint32
		Count  uint32
		Listed uint32
	}

	// NormParams are the parameters of norm. Kind is a graph.NormKind. Add is 1
	// if the kernel normalises x + r.
	NormParams struct {
		Width uint32
		Group uint32
		WLen  uint32
		BLen  uint32
		Kind  uint32
		Add   uint32
		Eps   float32
	}

	// RopeParams are the parameters of rope. HalfDim is the number of rotated
	// pairs per head.
	RopeParams struct {
		Rows     uint32
		Heads    uint32
		HeadDim  uint32
		First    uint32
		HalfDim  uint32
		Adjacent uint32
		Scale    float32
	}

	// EmbedParams are the parameters of embed. Count is the number of ids, and
	// Rows is the number of rows of the table.
	EmbedParams struct {
		Count    uint32
		Cols     uint32
		Rows     uint32
		RowBytes uint32
		Scale    float32
	}

	// MatvecParams are the parameters of matvec. w is [Rows][Cols] and x is
	// [Batch][Cols]. Bias is 1 if there is a bias.
	MatvecParams struct {
		Cols     uint32
		Rows     uint32
		RowBytes uint32
		Batch    uint32
		Bias     uint32
	}

	// MatmulParams are the parameters of matmul, which are the same as for
	// matvec.
	MatmulParams MatvecParams

	// ExpertParams are the parameters of expert. w is [matrices][Rows][Cols]
	// and bias is [matrices][Rows]. ByRoute is 1 if route names the matrices,
	// and 0 if each slot has its own matrix, as heads do. PerSlot is 1 if each
	// slot has its own part of x.
	ExpertParams struct {
		Cols     uint32
		Rows     uint32
		RowBytes uint32
		Used     uint32
		ByRoute  uint32
		PerSlot  uint32
		Bias     uint32
	}

	// KvLevelParams are the parameters of kv_level. Width is the width of x.
	// Group heads of Dim values share a KV head. Each is the number of channels
	// of a sequence if every sequence has its own channels, and otherwise 0.
	KvLevelParams struct {
		Count uint32
		Width uint32
		Dim   uint32
		Group uint32
		Query uint32
		Each  uint32
	}

	// KvShiftParams are the parameters of kv_shift. Group of the Heads share a
	// KV head. Each is as in KvLevelParams.
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

	// KvStoreParams are the parameters of kv_store. Values First to First+Dim
	// of each head go to byte At of their cell, in the part of the cache that
	// cell_of in cells.h finds. Side is the kv.Side whose counter counts
	// saturated values. Inspects is 1 in the launch that counts rows with NaN
	// or infinity.
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

	// KvEncodeParams are the parameters of kv_encode. They are the parameters
	// of kv_store and the literal of the form. The literal has the offsets in a
	// block of Elems values and Bytes bytes, the numbers of the scale rule, and
	// the distance Stride between the vectors of the rotation.
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

	// KvTrellisParams are the parameters of kv_trellis. They are as in
	// KvEncodeParams, for one block of trellis codes.
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

	// KvRepackParams are the parameters of kv_repack. They are as in
	// KvTrellisParams, with two differences. First is the index of the first
	// page in the list of pages. LaneAt is the index of the block's first value
	// in an exact row, and FirstValue its index in the head. HeadDim to Inverse
	// are only used for keys that each conversation normalises.
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

	// KvQueryParams are the parameters of kv_query. Values First to First+Dim
	// of a head become the lanes that begin at LaneAt.
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

	// AttendParams are the parameters of attend. Group is the number of query
	// heads per KV head, and SliceHeads is the number of query heads per
	// threadgroup. DK and DV are numbers of lanes. Pack to Tail are used if the
	// kernel has no constants for them. Window is a number of positions, or 0
	// to see all.
	//
	// Levels is the number of levels of the form. They begin at LevelsAt in its
	// table, in steps of Unit. Cut is the number of values of a head that is
	// divided into trellis blocks, or 0. ExactPack to SinkBytes describe the
	// exact pages and the pinned rows. Their offsets are in units of 64 bytes,
	// and a size of 0 bytes means that they do not exist. The other fields come
	// from graph.Attention, the cache type and the layout.
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

	// AttendCombineParams are the parameters of attend_combine. Lanes is the
	// width of a part, Dim is the number of values of a head in y, and Size is
	// the number of lanes of a rotation. Turned is the number of lanes whose
	// rotation is undone. Cut is as in AttendParams. Sinks is 1 if there are
	// sink logits.
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

// TopStretch is the number of values in which one threadgroup of top finds the
// largest.
const TopStretch = 2048
