// delta_net runs the gated delta rule along the rows of each span. The state of
// a value head is [key][value]; a thread owns one value column of it, grid y is
// the head, grid z the span. spans holds four ints a span: first row, rows,
// whether the sequence begins here, state slot.
// Sources: arXiv 2412.06464; without the correction (plain) arXiv 2405.21060.
KERNEL(delta_net)(IN(float, q, 0), IN(float, k, 1), IN(float, v, 2), IN(float, g, 3), IN(float, beta, 4), IN(int, spans, 5),
	INOUT(float, state, 6), OUT(float, y, 7), PARAMS(delta_net_params, p, 8) INDICES) {
	uint column = group_x * THREADS + thread_x;
	if (column >= p.value_dim) return;
	uint head = group_y;
	uint key = p.grouped != 0 ? head / (p.value_heads / p.key_heads) : head % p.key_heads;
	uint first = uint(spans[4 * group_z]), rows = uint(spans[4 * group_z + 1]);
	device float *s = state + uint(spans[4 * group_z + 3]) * p.slot + p.at + head * p.key_dim * p.value_dim + column;
	if (spans[4 * group_z + 2] != 0) {
		for (uint i = 0; i < p.key_dim; i++) s[i * p.value_dim] = 0.0f;
	}
	for (uint r = first; r < first + rows; r++) {
		device const float *kr = k + (r * p.key_heads + key) * p.key_dim;
		device const float *qr = q + (r * p.key_heads + key) * p.key_dim;
		float decay = exp(g[r * p.value_heads + head]);
		float d = v[(r * p.value_heads + head) * p.value_dim + column];
		if (p.plain == 0) { // what the decayed state gives for the key is there already
			float known = 0.0f;
			for (uint i = 0; i < p.key_dim; i++) known += s[i * p.value_dim] * kr[i];
			d -= decay * known;
		}
		d *= beta[r * p.value_heads + head];
		float out = 0.0f;
		for (uint i = 0; i < p.key_dim; i++) {
			float next = s[i * p.value_dim] * decay + kr[i] * d;
			s[i * p.value_dim] = next;
			out += next * qr[i];
		}
		y[(r * p.value_heads + head) * p.value_dim + column] = out * p.scale;
	}
}
