package shaders

// The parameter structs of the kernels that keep a state along a sequence. The
// state of a sequence begins at slot·Slot + At floats.
type (
	// ShortConvParams are the parameters of short_conv. Func is a graph.Func.
	ShortConvParams struct {
		Width uint32
		Taps  uint32
		Func  uint32
		Bias  uint32
		Slot  uint32
		At    uint32
	}

	// DeltaNetParams are the parameters of delta_net. Grouped and Plain are as
	// in graph.DeltaNet.
	DeltaNetParams struct {
		KeyHeads   uint32
		ValueHeads uint32
		KeyDim     uint32
		ValueDim   uint32
		Scale      float32
		Grouped    uint32
		Plain      uint32
		Slot       uint32
		At         uint32
	}
)
