// affine computes x·w + b with vectors that repeat along the row; a vector of
// length 0 is not there.
KERNEL(affine)(IN(float, x, 0), IN(float, w, 1), IN(float, b, 2), OUT(float, y, 3), PARAMS(affine_params, p, 4) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint column = i % p.width;
	float v = x[i];
	if (p.w_len > 0) v *= w[column % p.w_len];
	if (p.b_len > 0) v += b[column % p.b_len];
	y[i] = v;
}
