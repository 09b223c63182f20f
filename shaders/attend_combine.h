// attend_combine merges the parts of one row and query head in order, adds the
// sink, divides by the sum of the weights and turns the result back. Values that
// overflowed become the largest number, NaN becomes 0.
KERNEL(attend_combine)(IN(float, partial, 0), IN(float, sinks, 1), IN(float, form, 2), OUT(float, y, 3),
	PARAMS(attend_combine_params, p, 4) INDICES) {
	SHARED(float, v, LANES);
	uint t = thread_x, head = group_y * p.heads + group_x;
	for (uint i = t; i < p.lanes; i += THREADS) {
		float top = LOWEST, total = 0.0f, sum = 0.0f;
		for (uint part = 0; part < p.parts; part++) {
			device const float *from = partial + (head * p.parts + part) * (p.lanes + 2);
			if (from[1] == 0.0f) continue;
			float most = max(top, from[0]);
			float fade = total > 0.0f ? exp(top - most) : 0.0f, gain = exp(from[0] - most);
			total = total * fade + from[1] * gain;
			sum = sum * fade + from[2 + i] * gain;
			top = most;
		}
		if (p.sinks != 0) {
			float most = max(top, sinks[group_x]), fade = total > 0.0f ? exp(top - most) : 0.0f;
			total = total * fade + exp(sinks[group_x] - most);
			sum *= fade;
		}
		v[i] = total > 0.0f ? sum * (1.0f / total) : sum;
	}
	for (uint at = 0; at < p.turned; at += p.size) turn_back(v + at, form + PRE, p.inverse, p.size, t);
	for (uint i = t; i < p.dim; i += THREADS) {
		float a = v[i];
		y[head * p.dim + i] = a == a ? min(max(a, LOWEST), -LOWEST) : 0.0f;
	}
}
