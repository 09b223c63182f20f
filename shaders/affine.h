// affine computes y = x·w + b element by element. x and y are [rows][width]. w has w_len values and
// b has b_len values, which repeat along the row. If w_len is 0, there is no multiplication. If
// b_len is 0, there is no addition.
KERNEL(affine)(IN(float, x, 0), IN(float, w, 1), IN(float, b, 2), OUT(float, y, 3), PARAMS(affine_params, p, 4) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint column = i % p.width;
	float v = x[i];
	if (p.w_len > 0) v *= w[column % p.w_len];
	if (p.b_len > 0) v += b[column % p.b_len];
	y[i] = v;
}
