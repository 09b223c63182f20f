// norm normalises every group of group columns. x, r, sum and y are [rows][width]. kind selects the
// divisor: 0 is the root mean square, 1 is mean and variance (layer norm), 2 is the Euclidean
// length. A threadgroup handles one group. w scales and b shifts the result. They have w_len and
// b_len values, which repeat along the row. A vector is absent if its length is 0. If add is not 0,
// the kernel normalises x + r instead of x and also writes x + r to sum. Sources: arXiv 1910.07467,
// 1607.06450.
KERNEL(norm)(IN(float, x, 0), IN(float, r, 1), IN(float, w, 2), IN(float, b, 3), OUT(float, sum, 4), OUT(float, y, 5),
	PARAMS(norm_params, p, 6) INDICES) {
	SHARED(float, room, THREADS / 32);
	uint first = group_x * p.group; // index of the group's first element in x
	float squares = 0.0f, total = 0.0f;
	for (uint i = thread_x; i < p.group; i += THREADS) {
		float v = x[first + i];
		if (p.add != 0) {
			v += r[first + i];
			sum[first + i] = v;
		}
		squares += v * v;
		total += v;
	}
	float shift = 0.0f, square = group_sum(squares, room, thread_x);
	if (p.kind == 1) {
		shift = group_sum(total, room, thread_x) / float(p.group);
		squares = 0.0f;
		for (uint i = thread_x; i < p.group; i += THREADS) {
			float v = (p.add != 0 ? x[first + i] + r[first + i] : x[first + i]) - shift;
			squares += v * v;
		}
		square = group_sum(squares, room, thread_x);
	}
	float by = p.kind == 2 ? 1.0f / max(sqrt(square), p.eps) : 1.0f / sqrt(square / float(p.group) + p.eps);
	for (uint i = thread_x; i < p.group; i += THREADS) {
		uint column = first % p.width + i;
		float v = ((p.add != 0 ? x[first + i] + r[first + i] : x[first + i]) - shift) * by;
		if (p.w_len > 0) v *= w[column % p.w_len];
		if (p.b_len > 0) v += b[column % p.b_len];
		y[first + i] = v;
	}
}
