package shaders

// RouteExperts are the values of the constant EXPERTS, which is the maximum
// number of experts that an instance of route chooses from.
var RouteExperts = []int{64, 512}

// The parameter structs of the kernels for experts, except their matrix
// products.
type (
	// RouteParams are the parameters of route. Gating is a graph.Gating. Groups
	// is 0 if there are no groups. The other fields are as in graph.Routing.
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

	// ExpertSumParams are the parameters of expert_sum. Count is the number of
	// elements of y, and Width is the width of its rows.
	ExpertSumParams struct {
		Count uint32
		Width uint32
		Used  uint32
	}

	// ExpertScaleParams are the parameters of expert_scale. Count is the number
	// of elements of y, and Width is the width of an expert's vector.
	ExpertScaleParams struct {
		Count uint32
		Width uint32
		Used  uint32
	}
)
