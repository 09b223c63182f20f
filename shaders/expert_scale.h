// expert_scale multiplies the vector of each chosen expert by that expert's scale, w[expert]. x
// and y are [rows][used][width]. route has 2·used floats per row, the expert numbers first.
KERNEL(expert_scale)(IN(float, x, 0), IN(float, route, 1), IN(float, w, 2), OUT(float, y, 3), PARAMS(expert_scale_params, p, 4) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint row = i / (p.used * p.width), slot = i / p.width % p.used;
	y[i] = x[i] * w[uint(route[row * 2 * p.used + slot])];
}
