// unary computes y = cap·tanh(f(x)·by/cap) element by element, where func selects f (see
// apply_func). If cap is 0, y = f(x)·by.
KERNEL(unary)(IN(float, x, 0), OUT(float, y, 1), PARAMS(unary_params, p, 2) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	float v = apply_func(p.func, x[i]) * p.by;
	if (p.cap > 0.0f) v = p.cap * tanh(v / p.cap);
	y[i] = v;
}
