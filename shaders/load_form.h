// form_load8 reads eight values of a packed row, in the rotated domain, into v. i is the index of
// the first value, which is a multiple of eight. Values from index lanes on are 0. elems and bytes
// are the size of a block. Parameters whose names end in _at are byte offsets in a block. cut is as
// in cut_block. levels is the codebook, in shared memory.
//
// If READERS is 1, pack, bits and affine are compile-time constants, except the bits of trellis
// codes.
FUNC void form_load8(uint pack, uint bits, uint affine, uint lanes, device const uchar *row, uint i, uint elems, uint bytes,
	uint code_at, uint high_at, uint scale_at, uint min_at, uint cut, threadgroup const float *levels, thread float *v) {
	if (pack <= BF16_VALUES) {
		for (uint k = 0; k < 8; k++) {
			v[k] = 0.0f;
			if (lanes % 8 != 0 && i + k >= lanes) continue;
			if (pack == F32_VALUES) v[k] = ((device const float *)row)[i + k];
			if (pack == F16_VALUES) v[k] = half_to_float(((device const ushort *)row)[i + k]);
			if (pack == BF16_VALUES) v[k] = from_bfloat(((device const ushort *)row)[i + k]);
		}
		return;
	}
	if (pack == CYCLIC_CODES) { // each window of 8 bits selects a level
		uint at, n;
		device const uchar *block = row + cut_block(cut, code_at, bits, i, at, n);
		float d = from_half(block + scale_at);
		uint from = at / 8 * bits, end = n / 8 * bits;
		wide word = 0;
		for (uint k = 0; k <= bits; k++) word |= wide(block[code_at + (from + k < end ? from + k : 0)]) << (8 * k);
		UNROLL for (uint k = 0; k < 8; k++) v[k] = d * levels[uint(word >> (bits * k)) & 255u];
		return;
	}
	device const uchar *block = row + i / elems * bytes;
	uint at = i % elems;
	float d = from_half(block + scale_at), m = affine != 0 ? from_half(block + min_at) : 0.0f;
	device const uchar *q = block + code_at;
	if (pack == INT8_CODES) {
		UNROLL for (uint k = 0; k < 8; k++) v[k] = d * float(int(q[at + k] ^ 128u) - 128);
		return;
	}
	uint code[8];
	if (pack == STREAM_CODES) {
		uint word = 0;
		UNROLL for (uint k = 0; k < bits; k++) word |= uint(q[at / 8 * bits + k]) << (8 * k);
		UNROLL for (uint k = 0; k < 8; k++) code[k] = word >> (bits * k) & ((1u << bits) - 1);
	}
	if (pack == PLANE_CODES) {
		uint low = uint(q[at / 4]) | uint(q[at / 4 + 1]) << 8, high = block[high_at + at / 8];
		UNROLL for (uint k = 0; k < 8; k++) code[k] = (low >> (2 * k) & 3) | (high >> k & 1) << 2;
	}
	if (pack == HALF_CODES) {
		uint half_elems = elems / 2, shift = at / half_elems * 4, high = bits > 4 ? block[high_at + at / 8] : 0;
		UNROLL for (uint k = 0; k < 8; k++) code[k] = (q[at % half_elems + k] >> shift & 15) | (high >> k & 1) << 4;
	}
	UNROLL for (uint k = 0; k < 8; k++) v[k] = d * levels[code[k]] + m;
}
