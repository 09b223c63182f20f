// matrix8 is a matrix of 8 by 8 floats that the lanes of a SIMD group hold together. Only
// kernels with MMA 2 use it. matrix_load, matrix_load_turned (which transposes) and
// matrix_store access shared memory, where rows are stride floats apart. All functions are
// collectives of the SIMD group.
#if MMA == 2 && defined(__METAL_VERSION__)
#define matrix8 simdgroup_float8x8
FUNC void matrix_clear(thread matrix8 &m) { m = make_filled_simdgroup_matrix<float, 8>(0.0f); }
FUNC void matrix_load(thread matrix8 &m, threadgroup const float *from, uint stride) { simdgroup_load(m, from, stride); }
FUNC void matrix_load_turned(thread matrix8 &m, threadgroup const float *from, uint stride) {
	simdgroup_load(m, from, stride, ulong2(0, 0), true);
}
FUNC void matrix_store(thread matrix8 &m, threadgroup float *to, uint stride) { simdgroup_store(m, to, stride); }

// matrix_multiply adds a·b to c.
FUNC void matrix_multiply(thread matrix8 &c, thread matrix8 &a, thread matrix8 &b) { simdgroup_multiply_accumulate(c, a, b, c); }
#endif
