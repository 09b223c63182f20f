package shaders

// RouteExperts are the values of the constant EXPERTS: the most experts that an
// instance of route chooses from.
var RouteExperts = []int{64, 512}

// The parameter structs of the kernels about experts beside their products.
type (
	// RouteParams: Gating is a graph.Gating; Groups is 0 for none, the others are
	// those of graph.Routing.
	RouteParams struct {
		Experts    uint32
		Used       uint32
		Gating     uint32
		Bias       uint32
		Normalise  uint32
		Scale      float32
		Groups     uint32
		UsedGroups uint32
	}

	// ExpertSumParams: Count is the elements of y, Width of a row of it.
	ExpertSumParams struct {
		Count uint32
		Width uint32
		Used  uint32
	}

	// ExpertScaleParams: Count is the elements of y, Width of an expert's part.
	ExpertScaleParams struct {
		Count uint32
		Width uint32
		Used  uint32
	}
)
