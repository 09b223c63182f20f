// expert_sum computes the weighted sum of the chosen experts' vectors. x is [rows][used][width]
// and y is [rows][width]. route has 2·used floats per row: the expert numbers, then their
// weights.
KERNEL(expert_sum)(IN(float, x, 0), IN(float, route, 1), OUT(float, y, 2), PARAMS(expert_sum_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint row = i / p.width, column = i % p.width;
	device const float *part = x + row * p.used * p.width + column;
	device const float *by = route + row * 2 * p.used + p.used;
	float sum = 0.0f;
	for (uint e = 0; e < p.used; e++) sum += part[e * p.width] * by[e];
	y[i] = sum;
}
