// delta_net computes the gated delta rule over the rows of each span. For each row, with decay
// = exp(g):
//
//     S = decay·S + k·(beta·(v - decay·Sᵀk))ᵀ,  y = scale·Sᵀq
//
// If plain is not 0, the correction decay·Sᵀk is omitted. q and k are
// [rows][key_heads][key_dim], v and y are [rows][value_heads][value_dim], g and beta are
// [rows][value_heads].
//
// The state S of a value head is [key_dim][value_dim]. A thread computes one of its value
// columns. In the grid, y is the value head and z is the span. spans holds four ints per span:
// first row, number of rows, 1 if the sequence begins here (the state starts at zero), and the
// state slot.
//
// Sources: arXiv 2412.06464; arXiv 2405.21060 for plain.
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
		// the correction subtracts what the decayed state already returns for this key
		if (p.plain == 0) {
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
