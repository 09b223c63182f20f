// kv_query rotates SIZE values of a query head into the domain of the packed keys. Values at index
// dim and above are padding, which counts as 0. It also computes res, the query vector for the
// signs of the residual, if RESIDUAL is not 0. x is [rows][heads][head_dim], y and res are
// [rows][heads][lanes]. In the grid, x is the group of SIZE values, y is the head and z is the row.
KERNEL(kv_query)(IN(float, x, 0), IN(float, form, 1), OUT(float, y, 2), OUT(float, res, 3), PARAMS(kv_query_params, p, 4) INDICES) {
	SHARED(float, v, SIZE);
	uint t = thread_x, head = group_z * p.heads + group_y;
	for (uint i = t; i < SIZE; i += THREADS) {
		uint at = group_x * SIZE + i;
		v[i] = at < p.dim ? x[head * p.head_dim + p.first + at] : 0.0f;
	}
	turn(v, form + PRE, p.stride, p.scale, SIZE, t);
	uint to = head * p.lanes + p.lane_at + group_x * SIZE;
	for (uint i = t; i < SIZE; i += THREADS) {
		y[to + i] = v[i];
		if (RESIDUAL == 1) res[to + i] = v[i] * p.factor;
	}
#if RESIDUAL == 2
	times(v, form + PRE + 3 * SIZE, 1.0f, SIZE, t);
	walsh(v, SIZE, t);
	for (uint i = t; i < SIZE; i += THREADS) res[to + i] = v[i] * p.factor;
#endif
}
