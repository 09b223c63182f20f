// pool reduces the rows of each span, first row and number of rows, to one: their
// mean (kind 0), the first (1) or the last (2).
KERNEL(pool)(IN(float, x, 0), IN(int, spans, 1), OUT(float, y, 2), PARAMS(pool_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint span = i / p.width, column = i % p.width;
	uint first = uint(spans[2 * span]), n = uint(spans[2 * span + 1]);
	if (p.kind == 0) {
		float sum = 0.0f;
		for (uint r = 0; r < n; r++) sum += x[(first + r) * p.width + column];
		y[i] = sum / float(n);
	} else {
		y[i] = x[(p.kind == 1 ? first : first + n - 1) * p.width + column];
	}
}
