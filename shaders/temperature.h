// temperature multiplies every row by 1 + scale·ln(1 + ⌊position/every⌋), so that queries grow
// sharper with the length of their context. x and y are [rows][width]. rows has four ints per row,
// of which the position is the first.
KERNEL(temperature)(IN(float, x, 0), IN(int, rows, 1), OUT(float, y, 2), PARAMS(temperature_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint step = uint(rows[4 * (i / p.width)]) / p.every;
	y[i] = x[i] * (1.0f + p.scale * log(1.0f + float(step)));
}
