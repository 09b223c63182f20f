// kv_encode packs SIZE values of one head of one row into the row's cell. These are one block, or
// all blocks that are rotated together. x is [rows][kv_heads][head_dim]. RULE is a kv.Rule. With
// NO_SCALE, the rotated values are stored as f16. TURNS, RESIDUAL and POLAR select the other parts
// of the form. Sums run in index order, so the bytes are the same as from the format's reference
// encoder.
//
// In the grid, x is the group of SIZE values, y is the KV head and z is the row.
// Source: engine/kv, Rule.

#define NO_SCALE 0
#define CORRECTED_NORM 1
#define ROTATED_NORM 2
#define OUTER_AMAX 3
#define PLAIN_NORM 4
#define ROOT_MEAN_SQUARE 5
#define STOCK_AMAX 6
#define STOCK_SIGNED 7
#define STOCK_MIN_STEP 8
#define STOCK_FITTED 9

#if RULE == NO_SCALE
#elif RULE == STOCK_AMAX
// These functions implement the rules of llama.cpp's q8_0, q4_0, q5_0, q4_1 and q5_1.
// stock_scale returns the scale of a block. It sets low to the block's minimum where the format
// stores one, and lost to 1 if all values are NaN. stock_code returns the code of v, where
// inverse is the inverse of the scale.
FUNC float stock_scale(threadgroup const float *v, uint n, thread float &low, thread uint &lost) {
	float most = 0.0f;
	for (uint i = 0; i < n; i++) {
		float a = fabs(v[i]);
		if (!(most > a)) most = a; // if most is NaN, a replaces it, as in llama.cpp
	}
	low = 0.0f;
	lost = 0;
	return most / 127.0f;
}
FUNC uint stock_code(device const float *form, float v, float inverse, float low) { return uint(to_int(round(v * inverse))) & 255u; }
#elif RULE == STOCK_SIGNED
FUNC float stock_scale(threadgroup const float *v, uint n, thread float &low, thread uint &lost) {
	low = 0.0f;
	lost = 0;
	return extreme(v, n) / -float(1 << (BITS - 1));
}
FUNC uint stock_code(device const float *form, float v, float inverse, float low) {
	return low_code(to_int(v * inverse + (float(1 << (BITS - 1)) + 0.5f)));
}
#elif RULE == STOCK_MIN_STEP
FUNC float stock_scale(threadgroup const float *v, uint n, thread float &low, thread uint &lost) {
	float lo = -LOWEST, hi = LOWEST;
	for (uint i = 0; i < n; i++) {
		if (v[i] < lo) lo = v[i];
		if (v[i] > hi) hi = v[i];
	}
	lost = hi < lo ? 1 : 0;
	if (hi < lo) lo = hi = 0.0f;
	low = lo;
	return (hi - lo) / float((1 << BITS) - 1);
}
FUNC uint stock_code(device const float *form, float v, float inverse, float low) { return low_code(to_int((v - low) * inverse + 0.5f)); }
#endif

KERNEL(kv_encode)(IN(float, x, 0), IN(int, rows, 1), IN(int, tables, 2), IN(float, form, 3), INOUT(uchar, cache, 4),
	INOUT(uint, counts, 5), PARAMS(kv_encode_params, p, 6) INDICES) {
	SHARED(float, v, SIZE);
	SHARED(float, scale, 32); // scale of each block
	// 1/scale of each block, and from index 32 on the minimum of each block. CORRECTED_NORM and
	// POLAR use the array differently.
	SHARED(float, more, 64);
	SHARED(uchar, code, SIZE);
	SHARED(uchar, sign, SIZE);
	SHARED(uchar, out, GROUP_BYTES);
	uint head = group_y, row = group_z, blocks = SIZE / p.elems, t = thread_x;
	uint lost = 0; // number of blocks of this thread whose scale is infinite or NaN as an f16
	device const float *values = x + (row * p.kv_heads + head) * p.head_dim;
	wide cell;
	if (p.inspects != 0 && group_x == 0 && simd_x == 0 && !repeats(rows, row)) inspect(values, p.head_dim, counts, t);
	if (!cell_of(rows, tables, row, head, p.kv_heads, p.head_bytes, p.part, p.late, p.exact, p.own, p.passing, p.sinks, cell)) return;
	for (uint i = t; i < SIZE; i += THREADS) {
		uint at = group_x * SIZE + i;
		v[i] = at < p.dim ? values[p.first + at] : 0.0f;
		sign[i] = 0;
	}
	for (uint i = t; i < GROUP_BYTES; i += THREADS) out[i] = 0;
	barrier();
#if POLAR
	polar_encode(v, form + PRE + 4 * SIZE, float(rows[4 * row]), p.polar_floor, p.lambda, more, code, sign, t);
	polar_pack(out + p.radius_at, code, 3, t);
	polar_pack(out + p.angle_at, sign, 4, t);
	if (t == 0) put_half(out + p.sigma_at, more[0]);
#endif
#if RULE == NO_SCALE
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	for (uint i = t; i < SIZE; i += THREADS) lost += put_half(out + 2 * i, v[i]);
#elif RULE == CORRECTED_NORM
	if (t == 0) {
		float n = sqrt(squares(v, SIZE));
		scale[0] = n;
		more[0] = n > p.floor ? 1.0f / n : 0.0f;
		more[1] = n > p.floor || p.zero_nan == 0 ? 1.0f : 0.0f; // 0 if all values become 0
	}
	barrier();
	for (uint i = t; i < SIZE; i += THREADS) v[i] = more[1] == 0.0f ? 0.0f : v[i] * more[0];
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	for (uint i = t; i < SIZE; i += THREADS) code[i] = uchar(code_of(form, v[i]));
	barrier();
	if (t == 0) {
		float sum = 0.0f;
		for (uint i = 0; i < SIZE; i++) sum += form[code[i]] * form[code[i]];
		float m = sqrt(sum);
		for (uint b = 0; b < blocks; b++) lost += put_half(out + b * p.bytes + p.scale_at, m > p.floor ? scale[0] / m : scale[0]);
	}
#elif RULE == ROTATED_NORM
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	if (t == 0) {
		float n = sqrt(squares(v, SIZE));
		scale[0] = n;
		more[0] = 1.0f / n;
		lost = put_half(out + p.scale_at, n);
	}
	barrier();
	for (uint i = t; i < SIZE; i += THREADS) {
		float a = v[i] * more[0];
		code[i] = uchar(!(scale[0] > 0.0f) ? p.zero : a == a ? code_of(form, a) : 0);
	}
#elif RULE == OUTER_AMAX
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	if (t == 0) {
		float d = fabs(extreme(v, SIZE)) / p.outer;
		more[0] = d > 0.0f ? 1.0f / d : 0.0f;
		lost = put_half(out + p.scale_at, d);
	}
	barrier();
	for (uint i = t; i < SIZE; i += THREADS) {
		float a = v[i] * more[0];
		code[i] = uchar(code_of(form, a));
		sign[i] = a - form[code[i]] >= 0.0f ? 1 : 0;
	}
#elif RULE == PLAIN_NORM || RULE == ROOT_MEAN_SQUARE
	if (RULE == ROOT_MEAN_SQUARE) turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	if (t < blocks) { // with a joint scale, every block computes the same value
		uint n = p.joint != 0 || RULE == PLAIN_NORM ? SIZE : p.elems;
		float sum = squares(v + (n == SIZE ? 0 : t * p.elems), n);
		scale[t] = RULE == PLAIN_NORM ? sqrt(sum) : sqrt(sum / float(n));
		lost = put_half(out + t * p.bytes + p.scale_at, scale[t]);
	}
	barrier();
	bool zero = scale[blocks - 1] < p.floor; // for forms with a residual, which have only one scale
	for (uint i = t; i < SIZE; i += THREADS) {
		if (!(scale[i / p.elems] < p.floor)) v[i] = v[i] * (1.0f / scale[i / p.elems]);
	}
	if (RULE == PLAIN_NORM) turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	for (uint i = t; i < SIZE; i += THREADS) {
		bool empty = scale[i / p.elems] < p.floor;
		code[i] = uchar(empty ? 0 : code_of(form, v[i]));
		if (!empty) v[i] = v[i] - form[code[i]];
		// the signs are ±1, so the squares stay the same
		if (RESIDUAL == 2) v[i] *= form[PRE + 3 * SIZE + i];
	}
	barrier();
#if RESIDUAL
	if (t == 0 && !zero) {
		float sum = 0.0f;
		for (uint i = 0; i < SIZE && RESIDUAL == 1; i++) sum += fabs(v[i]);
		sum = RESIDUAL == 1 ? sum / float(SIZE) : sqrt(squares(v, SIZE));
		// a block counts once, even if both of its scales are saturated
		for (uint b = 0; b < blocks; b++) {
			uint more_lost = put_half(out + b * p.bytes + p.res_at, sum * scale[blocks - 1]);
			lost += more_lost & ~lost_half(scale[b]);
		}
	}
	if (RESIDUAL == 2) walsh(v, SIZE, t);
	for (uint i = t; i < SIZE; i += THREADS) sign[i] = !zero && v[i] >= 0.0f ? 1 : 0;
#endif
#elif RULE == STOCK_FITTED
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	if (t < blocks) {
		float most = extreme(v + t * p.elems, p.elems);
		scale[t] = fabs(most);
		more[t] = 1.0f / (most / form[0]);
	}
	barrier();
	for (uint i = t; i < SIZE; i += THREADS) {
		code[i] = uchar(scale[i / p.elems] < p.floor ? 0 : nearest(form, v[i] * more[i / p.elems]));
	}
	barrier();
	if (t < blocks && !(scale[t] < p.floor)) {
		float lx = 0.0f, ll = 0.0f;
		for (uint i = t * p.elems; i < (t + 1) * p.elems; i++) {
			float l = form[code[i]], wl = v[i] * v[i] * l;
			lx += wl * v[i];
			ll += wl * l;
		}
		lost = put_half(out + t * p.bytes + p.scale_at, lx / ll);
	}
#else
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	if (t < blocks) {
		float low, d = stock_scale(v + t * p.elems, p.elems, low, lost);
		more[t] = d != 0.0f ? 1.0f / d : 0.0f;
		more[32 + t] = low;
		lost |= put_half(out + t * p.bytes + p.scale_at, d);
		if (RULE == STOCK_MIN_STEP) lost |= put_half(out + t * p.bytes + p.min_at, low);
	}
	barrier();
	for (uint i = t; i < SIZE; i += THREADS) code[i] = uchar(stock_code(form, v[i], more[i / p.elems], more[32 + i / p.elems]));
#endif
	barrier();
	for (uint b = 0; b < blocks && RULE != NO_SCALE; b++) {
		pack_codes(out + b * p.bytes, code + b * p.elems, p.elems, p.code_at, p.high_at, t);
		for (uint j = t; j < p.elems / 8 && RESIDUAL; j += THREADS) {
			out[b * p.bytes + p.res_bits + j] = uchar(stream_byte(sign + b * p.elems, 1, 0, j));
		}
	}
	barrier();
	count(counts + SATURATED + 2 * p.side, lost);
	device uchar *to = cache + cell + p.at + group_x * GROUP_BYTES;
	for (uint i = t; i < GROUP_BYTES; i += THREADS) to[i] = out[i];
}
