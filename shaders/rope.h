// rope rotates pairs of columns of each head by the angle position·freqs[i] and multiplies them by
// scale (RoPE). Pair i is the columns (first+i, first+i+half_dim). If adjacent is not 0, it is the
// columns (first+2i, first+2i+1). The kernel copies the other columns unchanged. x and y are
// [rows][heads][head_dim], and freqs is in radians per position. rows has four ints per row, of
// which the position is the first. A thread computes one pair, or copies one column. Source: arXiv
// 2104.09864.
KERNEL(rope)(IN(float, x, 0), IN(int, rows, 1), IN(float, freqs, 2), OUT(float, y, 3), PARAMS(rope_params, p, 4) INDICES) {
	uint i = group_x * THREADS + thread_x;
	uint items = p.head_dim - p.half_dim; // number of threads per head
	if (i >= p.heads * items * p.rows) return;
	uint row = i / (p.heads * items), at = i % (p.heads * items);
	uint head = (row * p.heads + at / items) * p.head_dim, item = at % items;
	if (item >= p.half_dim) {
		uint column = item - p.half_dim;
		if (column >= p.first) column += 2 * p.half_dim;
		y[head + column] = x[head + column];
		return;
	}
	uint quarter;
	float sine, cosine;
	float angle = rope_angle(float(rows[4 * row]), freqs[item], quarter);
	rope_sin_cos(angle, quarter, sine, cosine);
	sine *= p.scale;
	cosine *= p.scale;
	uint a = head + p.first + (p.adjacent != 0 ? 2 * item : item);
	uint b = p.adjacent != 0 ? a + 1 : a + p.half_dim;
	float u = x[a], v = x[b];
	y[a] = u * cosine - v * sine;
	y[b] = u * sine + v * cosine;
}
