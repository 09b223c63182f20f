// rope_angle is position·freq less a whole number of quarter turns, which go to
// quarter. The product is exact in two floats and π/2 is split in three, so that
// the angle stays good to a float's precision at any position below 2²⁴.
FUNC float rope_angle(float position, float freq, thread uint &quarter) {
	float hi = position * freq, lo = fma(position, freq, -hi);
	float n = floor(hi * 0.6366197723675814f + 0.5f);
	quarter = uint(int(n)) % 4u;
	float v = fma(n, -1.5707963705062866f, hi);
	v = fma(n, 4.371138828673793e-8f, v);
	v = fma(n, 1.7151245100058819e-15f, v);
	return v + lo;
}

// rope_sin_cos is the sine and cosine of v + quarter·π/2 for |v| ≤ π/4, by their
// series, to about an ulp.
FUNC void rope_sin_cos(float v, uint quarter, thread float &sine, thread float &cosine) {
	float v2 = v * v;
	float s = v * (1.0f + v2 * (-1.6666667e-1f + v2 * (8.3333333e-3f + v2 * (-1.9841270e-4f + v2 * 2.7557319e-6f))));
	float c = 1.0f + v2 * (-0.5f + v2 * (4.1666667e-2f + v2 * (-1.3888889e-3f + v2 * (2.4801587e-5f - v2 * 2.7557319e-7f))));
	float swap_s = quarter % 2 == 0 ? s : c, swap_c = quarter % 2 == 0 ? c : s;
	sine = quarter < 2 ? swap_s : -swap_s;
	cosine = quarter == 0 || quarter == 3 ? swap_c : -swap_c;
}

// rope rotates pairs of each head: columns (i, i+half) from first on, or with
// adjacent (2i, 2i+1), by position·freqs[i], and multiplies them by scale. The
// other columns are copied. rows holds four ints a row, the position first.
// A thread works on one pair, or on a column outside the rotated part.
KERNEL(rope)(IN(float, x, 0), IN(int, rows, 1), IN(float, freqs, 2), OUT(float, y, 3), PARAMS(rope_params, p, 4) INDICES) {
	uint i = group_x * THREADS + thread_x;
	uint items = p.head_dim - p.half_dim; // of a head
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
