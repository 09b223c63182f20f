// How kv_encode computes codes and packs them into bytes.

// squares returns the sum of the squares of n values, added in index order.
FUNC float squares(threadgroup const float *v, uint n) {
	float sum = 0.0f;
	for (uint i = 0; i < n; i++) sum += v[i] * v[i];
	return sum;
}

// code_of returns the index of the first boundary above v, or the last code if v is above all.
FUNC uint code_of(device const float *form, float v) {
	uint last = (1u << BITS) - 1;
	for (uint i = 0; i < last; i++) {
		if (form[BOUNDS + i] > v) return i;
	}
	return last;
}

// to_int truncates. It returns the smallest int for NaN and for values that do not fit.
FUNC int to_int(float v) {
	return v >= -2147483648.0f && v < 2147483648.0f ? int(v) : int(0x80000000u);
}

// low_code takes the low byte of v as a signed number and limits it to the highest code.
FUNC uint low_code(int v) {
	int byte = int((uint(v) & 255u) ^ 128u) - 128;
	return uint(min(byte, (1 << BITS) - 1));
}

// extreme returns the value with the largest magnitude. In a tie, it is the first one.
FUNC float extreme(threadgroup const float *v, uint n) {
	float most = 0.0f, value = 0.0f;
	for (uint i = 0; i < n; i++) {
		float a = fabs(v[i]);
		if (a > most) {
			most = a;
			value = v[i];
		}
	}
	return value;
}

// nearest returns the index of the level nearest to v. In a tie, it is the higher index.
FUNC uint nearest(device const float *form, float v) {
	uint last = (1u << BITS) - 1;
	for (uint i = 0; i < last; i++) {
		if (v - form[i] < form[i + 1] - v) return i;
	}
	return last;
}

// put_half stores v as an f16, with finite_half. It returns lost_half(v), which is 1 if v is
// infinite or NaN as an f16.
FUNC uint put_half(threadgroup uchar *to, float v) {
	uint h = finite_half(v);
	to[0] = uchar(h);
	to[1] = uchar(h >> 8);
	return lost_half(v);
}

// pack_codes writes the codes of one block, in the layout PACK. high_at is the byte offset of
// the highest bits, which are a separate stream in the layouts PLANE_CODES and HALF_CODES.
FUNC void pack_codes(threadgroup uchar *block, threadgroup const uchar *code, uint elems, uint code_at, uint high_at, uint thread_index) {
	uint bytes = elems * BITS / 8;
	if (PACK == PLANE_CODES) bytes = elems / 4;
	if (PACK == HALF_CODES) bytes = elems / 2;
	for (uint j = thread_index; j < bytes; j += THREADS) {
		uint v = code[j];
		if (PACK == STREAM_CODES) v = stream_byte(code, BITS, 0, j);
		if (PACK == PLANE_CODES) v = stream_byte(code, 2, 0, j);
		if (PACK == HALF_CODES) v = (v & 15) | uint(code[j + elems / 2] & 15) << 4;
		block[code_at + j] = uchar(v);
	}
	if (PACK == PLANE_CODES || (PACK == HALF_CODES && BITS > 4)) {
		for (uint j = thread_index; j < elems / 8; j += THREADS) block[high_at + j] = uchar(stream_byte(code, 1, PACK == PLANE_CODES ? 2 : 4, j));
	}
}
