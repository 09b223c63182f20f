// binary computes y = a + b, or y = a·b if mul is not 0. Every column of b is used for group
// adjacent columns of a, so b is narrower than a by the factor group.
KERNEL(binary)(IN(float, a, 0), IN(float, b, 1), OUT(float, y, 2), PARAMS(binary_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	float v = a[i], w = b[i / p.group];
	y[i] = p.mul != 0 ? v * w : v + w;
}
