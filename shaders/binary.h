// binary adds (mul = 0) or multiplies column by column. b is narrower by a
// factor of group: each of its columns serves a group of a's.
KERNEL(binary)(IN(float, a, 0), IN(float, b, 1), OUT(float, y, 2), PARAMS(binary_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	float v = a[i], w = b[i / p.group];
	y[i] = p.mul != 0 ? v * w : v + w;
}
