// pool reduces the rows of every span to one row, which is their mean (kind 0), the first row (1)
// or the last row (2). spans has two ints per span, the first row and the number of rows. x is
// [rows][width] and y is [spans][width].
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
