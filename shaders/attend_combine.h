// attend_combine merges the partial softmaxes of one row and one query head, in order, into one row
// of y. partial is [rows][heads][parts][lanes + 2], as attend writes it. y is [rows][heads][dim].
//
// The kernel adds the weight of the head's sink logit to the sum of the weights, divides the
// weighted sum of V by that sum, and rotates the result back. If p.sinks is 0, there are no sink logits. If
// p.shifted is not 0, the scores in partial lack the term shift, [rows][heads], so the kernel
// also subtracts shift from the sink logit. Infinite results become the largest finite float of
// their sign, and NaN becomes 0.
//
// Sources: arXiv 1706.03762, 2205.14135.
KERNEL(attend_combine)(IN(float, partial, 0), IN(float, sinks, 1), IN(float, form, 2), IN(float, shift, 3), OUT(float, y, 4),
	PARAMS(attend_combine_params, p, 5) INDICES) {
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
			float sink = p.shifted != 0 ? sinks[group_x] - shift[head] : sinks[group_x];
			float most = max(top, sink), fade = total > 0.0f ? exp(top - most) : 0.0f;
			total = total * fade + exp(sink - most);
			sum *= fade;
		}
		v[i] = total > 0.0f ? sum * (1.0f / total) : sum;
	}
	for (uint at = 0; at < p.turned;) {
		uint in, n = p.size;
		if (p.cut != 0) cut_block(p.cut, 0, 0, at, in, n);
		turn_back(v + at, form + PRE, p.size, p.inverse * sqrt(float(p.size / n)), n, t);
		at += n;
	}
	for (uint i = t; i < p.dim; i += THREADS) {
		float a = v[i];
		y[head * p.dim + i] = a == a ? min(max(a, LOWEST), -LOWEST) : 0.0f;
	}
}
