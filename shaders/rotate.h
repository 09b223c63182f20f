// walsh is the unnormalised Walsh-Hadamard transform of n values in shared
// memory, n a power of two; strides ascend, which decides the last bits.
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

// times multiplies n values by those of by, and by scale.
FUNC void times(threadgroup float *v, device const float *by, float scale, uint n, uint thread_index) {
	for (uint i = thread_index; i < n; i += THREADS) v[i] = v[i] * scale * by[i];
}

// Where a value is read or written alone it is by thread i modulo THREADS, so
// that times needs no barrier of its own.

// turn rotates n values: times pre, transform, with TURNS 2 times mid and again,
// times scale and post. The three vectors lie stride values apart in signs.
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

// turn_back undoes turn; scale is applied after each transform.
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
