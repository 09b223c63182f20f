// expert multiplies rows of x by matrices of a stack, w, which is [matrices][rows][cols]. Every
// row of the batch has used slots. y is [batch][used][rows].
//
// If by_route is not 0, slot s uses the matrix that route names for it. Otherwise, slot s uses
// matrix s. If per_slot is not 0, each slot multiplies its own vector, and x is
// [batch][used][cols]. Otherwise, the slots share one vector, and x is [batch][cols]. route has
// 2·used floats per row: the expert numbers, then their weights. bias is [matrices][rows]. It is
// only read if p.bias is not 0.
KERNEL(expert)(IN(uchar, w, 0), IN(float, x, 1), IN(float, route, 2), IN(float, bias, 3), IN(uint, grid, 4),
	OUT(float, y, 5), PARAMS(expert_params, p, 6) INDICES) {
	uint row = group_x * (THREADS / 32) + simd_x, batch = group_y / p.used, slot = group_y % p.used;
	if (row >= p.rows) return;
	uint matrix = p.by_route != 0 ? uint(route[2 * p.used * batch + slot]) : slot;
	uint part = p.per_slot != 0 ? batch * p.used + slot : batch;
	float sum[1];
	sum[0] = 0.0f;
	dot_rows(w + (wide(matrix) * p.rows + row) * p.row_bytes, grid, x + part * p.cols, p.cols, 1, lane, sum);
	float v = simd_sum(sum[0]);
	if (p.bias != 0) v += bias[matrix * p.rows + row];
	if (lane == 0) y[group_y * p.rows + row] = v;
}
