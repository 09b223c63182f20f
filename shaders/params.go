package shaders

// The parameter structs, as Kernel.Params names them. Sizes are in elements.
type (
	// UnaryParams: Func is a graph.Func, By multiplies its result; Cap 0 is none.
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

	// GluParams: Func is a graph.Func; Limit 0 is none.
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
)
