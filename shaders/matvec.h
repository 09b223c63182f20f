// matvec computes y = x·wᵀ + bias for a few rows of x. w is [rows][cols], x is [batch][cols]
// and y is [batch][rows]. A SIMD group computes one column of y for ROWS rows, so it reads a
// row of weights only once for all of them.
KERNEL(matvec)(IN(uchar, w, 0), IN(float, x, 1), IN(float, bias, 2), IN(uint, grid, 3), OUT(float, y, 4),
	PARAMS(matvec_params, p, 5) INDICES) {
	uint row = group_x * (THREADS / 32) + simd_x, first = group_y * ROWS;
	if (row >= p.rows) return;
	float sum[ROWS];
	for (uint r = 0; r < ROWS; r++) sum[r] = 0.0f;
	dot_rows(w + wide(row) * p.row_bytes, grid, x + first * p.cols, p.cols, p.batch - first, lane, sum);
	for (uint r = 0; r < ROWS; r++) {
		float v = simd_sum(sum[r]);
		if (p.bias != 0) v += bias[row];
		if (lane == 0 && first + r < p.batch) y[(first + r) * p.rows + row] = v;
	}
}
