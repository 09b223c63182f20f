package shaders

import "godwit/engine/dtype"

// weights lists the weight formats that the kernels support. Their numbers are
// in weights.h.
var weights = map[dtype.Type]bool{
	dtype.F32: true, dtype.F16: true, dtype.BF16: true, dtype.Q8_0: true, dtype.Q4_0: true, dtype.Q4_1: true, dtype.Q5_0: true,
	dtype.Q5_1: true, dtype.Q4_K: true, dtype.Q5_K: true, dtype.Q6_K: true, dtype.IQ4_NL: true, dtype.IQ4_XS: true, dtype.MXFP4: true,
	dtype.Q2_K: true, dtype.Q3_K: true, dtype.TQ1_0: true, dtype.TQ2_0: true, dtype.NVFP4: true, dtype.Q1_0: true, dtype.Q2_0: true,
	dtype.TQ3_1S: true, dtype.TQ4_1S: true, dtype.IQ1_S: true, dtype.IQ1_M: true, dtype.IQ2_XXS: true, dtype.IQ2_XS: true,
	dtype.IQ2_S: true, dtype.IQ3_XXS: true, dtype.IQ3_S: true,
}

// Weight reports whether kernels with the constant WEIGHT support a format.
func Weight(t dtype.Type) bool { return weights[t] }
