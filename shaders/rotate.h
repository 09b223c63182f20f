// The rotation of cache types. It multiplies by signs and applies Walsh-Hadamard transforms, in
// shared memory.

// walsh computes the unnormalised Walsh-Hadamard transform of n values in place. n is a power of
// two. Strides ascend, which determines how results are rounded.
FUNC void walsh(threadgroup float *v, uint n, uint thread_index) {
	for (uint stride = 1; stride < n; stride *= 2) {
		barrier();
		for (uint i = thread_index; i < n / 2; i += THREADS) {
			uint at = i / stride * 2 * stride + i % stride;
			float a = v[at], b = v[at + stride];
			v[at] = a + b;
			v[at + stride] = a - b;
		}
	}
	barrier();
}

// times multiplies each of n values by scale and by the value at the same index of the array by.
//
// It needs no barrier, because here and in every loop around these functions, the thread
// i modulo THREADS reads and writes value i.
FUNC void times(threadgroup float *v, device const float *by, float scale, uint n, uint thread_index) {
	for (uint i = thread_index; i < n; i += THREADS) v[i] = v[i] * scale * by[i];
}

// turn rotates n values. With TURNS 1, it multiplies by the signs pre, transforms, and multiplies
// by scale and by the signs post. With TURNS 2, it also multiplies by the signs mid and transforms
// again before it multiplies by post. With TURNS 0, it does nothing. signs has the vectors pre, mid
// and post, stride values apart.
FUNC void turn(threadgroup float *v, device const float *signs, uint stride, float scale, uint n, uint thread_index) {
	if (TURNS == 0) return;
	times(v, signs, 1.0f, n, thread_index);
	walsh(v, n, thread_index);
	if (TURNS == 2) {
		times(v, signs + stride, 1.0f, n, thread_index);
		walsh(v, n, thread_index);
	}
	times(v, signs + 2 * stride, scale, n, thread_index);
	barrier();
}

// turn_back is the inverse of turn. It multiplies by scale after each transform.
FUNC void turn_back(threadgroup float *v, device const float *signs, uint stride, float scale, uint n, uint thread_index) {
	if (TURNS == 0) return;
	times(v, signs + 2 * stride, 1.0f, n, thread_index);
	walsh(v, n, thread_index);
	if (TURNS == 2) {
		times(v, signs + stride, scale, n, thread_index);
		walsh(v, n, thread_index);
	}
	times(v, signs, scale, n, thread_index);
	barrier();
}
