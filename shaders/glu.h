// glu computes y = f(gate)·up, where func selects f (see apply_func). If limit is above 0, it
// computes the clamped form of gpt-oss instead: gate·sigmoid(1.702·gate)·(up + 1), with gate ≤
// limit and |up| ≤ limit.
// Source: arXiv 2002.05202.
KERNEL(glu)(IN(float, gate, 0), IN(float, up, 1), OUT(float, y, 2), PARAMS(glu_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	float g = gate[i], u = up[i];
	if (p.limit > 0.0f) {
		g = min(g, p.limit);
		u = max(-p.limit, min(p.limit, u));
		y[i] = g * sigmoid_of(1.702f * g) * (u + 1.0f);
	} else {
		y[i] = apply_func(p.func, g) * u;
	}
}
