// Dequantisation of weight rows. WEIGHT is the type's number in GGUF files. The block layouts are
// the same as in engine/quant.
//
// load8 reads eight values of a row, starting at value i, which is a multiple of eight. load_run
// does the same for a row of cols values, and fills with zeros after the end of the row.
//
// grid is the codebook of an IQ1, IQ2 or IQ3 format, as signed bytes, with four per word. A code
// selects two words (eight values) in IQ1 and IQ2, and one word (four values) in IQ3.

// nibble8 reads the 4-bit codes of values i to i+7 in a group of 32 values and 16 bytes. The
// low half of byte j is value j, and the high half is value j+16.
FUNC void nibble8(device const uchar *q, uint i, thread uint *code) {
	uint shift = i / 16 * 4;
	UNROLL for (uint k = 0; k < 8; k++) code[k] = q[i % 16 + k] >> shift & 15;
}

// fifth8 adds the fifth bit of each code. high is a stream with one bit per value.
FUNC void fifth8(device const uchar *high, uint i, thread uint *code) {
	uint bits = high[i / 8];
	UNROLL for (uint k = 0; k < 8; k++) code[k] |= (bits >> k & 1) << 4;
}

// scale_k returns the 6-bit scale of group g, from 0 to 7, or its minimum if low is 1.
FUNC uint scale_k(device const uchar *s, uint g, uint low) {
	device const uchar *here = s + 4 * low;
	if (g < 4) return here[g] & 63;
	return (s[4 + g] >> 4 * low & 15) | (here[g - 4] >> 6) << 4;
}

#if WEIGHT == 0 // F32
FUNC float load1(device const uchar *row, uint i) { return ((device const float *)row)[i]; }

#elif WEIGHT == 1 // F16
FUNC float load1(device const uchar *row, uint i) { return half_to_float(((device const ushort *)row)[i]); }

#elif WEIGHT == 30 // BF16
FUNC float load1(device const uchar *row, uint i) { return from_bfloat(((device const ushort *)row)[i]); }

#elif WEIGHT == 8 // Q8_0
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 32 * 34;
	float d = from_half(b);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(int(b[2 + i % 32 + k] ^ 128u) - 128);
}

#elif WEIGHT == 2 // Q4_0
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 32 * 18;
	float d = from_half(b);
	uint code[8];
	nibble8(b + 2, i % 32, code);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(int(code[k]) - 8);
}

#elif WEIGHT == 3 // Q4_1
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 32 * 20;
	float d = from_half(b), m = from_half(b + 2);
	uint code[8];
	nibble8(b + 4, i % 32, code);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(code[k]) + m;
}

#elif WEIGHT == 6 // Q5_0
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 32 * 22;
	float d = from_half(b);
	uint code[8];
	nibble8(b + 6, i % 32, code);
	fifth8(b + 2, i % 32, code);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(int(code[k]) - 16);
}

#elif WEIGHT == 7 // Q5_1
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 32 * 24;
	float d = from_half(b), m = from_half(b + 2);
	uint code[8];
	nibble8(b + 8, i % 32, code);
	fifth8(b + 4, i % 32, code);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(code[k]) + m;
}

#elif WEIGHT == 12 || WEIGHT == 13 // Q4_K, Q5_K
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 256 * (WEIGHT == 12 ? 144 : 176);
	uint g = i % 256 / 32, at = i % 32; // g is the group of 32 values that contains i
	float d = from_half(b) * float(scale_k(b + 4, g, 0)), m = from_half(b + 2) * float(scale_k(b + 4, g, 1));
	device const uchar *q = b + (WEIGHT == 12 ? 16 : 48) + g / 2 * 32 + at;
	UNROLL for (uint k = 0; k < 8; k++) {
		uint code = q[k] >> g % 2 * 4 & 15;
		if (WEIGHT == 13) code |= uint(b[16 + at + k] >> g & 1) << 4;
		w[k] = d * float(code) - m;
	}
}

#elif WEIGHT == 14 // Q6_K
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 256 * 210;
	uint half_block = i % 256 / 128, quarter = i % 128 / 32, at = i % 32;
	device const uchar *low = b + 64 * half_block + quarter % 2 * 32 + at, *high = b + 128 + 32 * half_block + at;
	float d = from_half(b + 208) * float(int(b[192 + i % 256 / 16] ^ 128u) - 128);
	UNROLL for (uint k = 0; k < 8; k++) {
		uint code = (low[k] >> quarter / 2 * 4 & 15) | uint(high[k] >> 2 * quarter & 3) << 4;
		w[k] = d * float(int(code) - 32);
	}
}

#elif WEIGHT == 20 || WEIGHT == 23 || WEIGHT == 39 // IQ4_NL, IQ4_XS, MXFP4
#if WEIGHT == 39
constant float levels4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
#else
constant float levels4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
#endif
FUNC void load8(device const uchar *row, uint i, thread float *w) {
#if WEIGHT == 20
	device const uchar *b = row + i / 32 * 18, *q = b + 2;
	float d = from_half(b);
#elif WEIGHT == 39
	device const uchar *b = row + i / 32 * 17, *q = b + 1;
	uint e = b[0]; // the scale is 2^(e-128), half of the E8M0 number, because levels4 is doubled
	float d = e < 2 ? as_float(e == 0 ? 0x00200000u : 0x00400000u) : as_float((e - 1) << 23);
#else
	device const uchar *b = row + i / 256 * 136;
	uint g = i % 256 / 32;
	device const uchar *q = b + 8 + 16 * g;
	uint s = (b[4 + g / 2] >> g % 2 * 4 & 15) | (uint(b[2 + g / 4]) >> g % 4 * 2 & 3) << 4;
	float d = from_half(b) * float(int(s) - 32);
#endif
	uint code[8];
	nibble8(q, i % 32, code);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * levels4[code[k]];
}

#elif WEIGHT == 16 || WEIGHT == 17 || WEIGHT == 18 || WEIGHT == 19 || WEIGHT == 21 || WEIGHT == 22 || WEIGHT == 29 // IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ3_S, IQ2_S, IQ1_M
// word16 and word32 read little-endian numbers at an even address.
FUNC uint word16(device const uchar *p) { return uint(p[0]) | uint(p[1]) << 8; }
FUNC uint word32(device const uchar *p) { return word16(p) | word16(p + 2) << 16; }

// even_signs returns eight signs: the seven given ones, and one that makes the number of ones even.
FUNC uint even_signs(uint signs) {
	uint p = signs & 127;
	p ^= p >> 4;
	p ^= p >> 2;
	p ^= p >> 1;
	return (signs & 127) | (p & 1) << 7;
}

// point returns value k, from 0 to 3, of a codebook word.
FUNC float point(uint word, uint k) { return float(int((word >> 8 * k & 255) ^ 128u) - 128); }

FUNC void load8(device const uchar *row, device const uint *grid, uint i, thread float *w) {
	uint g = i % 256 / 32, l = i % 256 / 8; // g is the group of 32 values that contains i, and l the group of eight
#if WEIGHT == 19 || WEIGHT == 29
#if WEIGHT == 19
	device const uchar *b = row + i / 256 * 50;
	uint high = word16(b + 34 + 2 * g), top = high >> l % 4 * 3 & 7, s = high >> 12 & 7, minus = high >> 15;
	float d = from_half(b);
#else
	device const uchar *b = row + i / 256 * 56, *scales = b + 48;
	uint high = b[32 + l / 2] >> l % 2 * 4, top = high & 7, s = word16(scales + l / 8 * 2) >> l / 2 % 4 * 3 & 7, minus = high >> 3 & 1;
	uint bits = uint(scales[1]) >> 4 | (uint(scales[3]) & 240) | (uint(scales[5]) & 240) << 4 | (uint(scales[7]) & 240) << 8;
	float d = half_to_float(ushort(bits));
#endif
	uint code = uint(b[(WEIGHT == 19 ? 2 : 0) + l]) | top << 8;
	float scale = d * float(2 * s + 1), shift = minus != 0 ? -0.125f : 0.125f;
	UNROLL for (uint k = 0; k < 8; k++) w[k] = scale * (point(grid[2 * code + k / 4], k % 4) + shift);
#else
#if WEIGHT == 16
	device const uchar *b = row + i / 256 * 66, *q = b + 2 + 8 * g;
	uint more = word32(q + 4), signs = even_signs(more >> l % 4 * 7), code = q[l % 4];
	float scale = from_half(b) * (0.5f + float(more >> 28)) * 0.25f;
	uint low = grid[2 * code], high = grid[2 * code + 1];
#elif WEIGHT == 17
	device const uchar *b = row + i / 256 * 74;
	uint q = word16(b + 2 + 2 * l), signs = even_signs(q >> 9);
	float scale = from_half(b) * (0.5f + float(b[66 + g] >> l / 2 % 2 * 4 & 15)) * 0.25f;
	uint low = grid[2 * (q & 511)], high = grid[2 * (q & 511) + 1];
#elif WEIGHT == 22
	device const uchar *b = row + i / 256 * 82;
	uint code = uint(b[2 + l]) | uint(b[66 + g] >> l % 4 * 2 & 3) << 8, signs = b[34 + l];
	float scale = from_half(b) * (0.5f + float(b[74 + g] >> l / 2 % 2 * 4 & 15)) * 0.25f;
	uint low = grid[2 * code], high = grid[2 * code + 1];
#elif WEIGHT == 18
	device const uchar *b = row + i / 256 * 98, *q = b + 2 + 2 * l;
	uint more = word32(b + 66 + 4 * g), signs = even_signs(more >> l % 4 * 7);
	float scale = from_half(b) * (0.5f + float(more >> 28)) * 0.5f;
	uint low = grid[q[0]], high = grid[q[1]];
#else
	device const uchar *b = row + i / 256 * 110, *q = b + 2 + 2 * l;
	uint more = uint(b[66 + g]) >> l % 4 * 2, signs = b[74 + l];
	float scale = from_half(b) * float(1 + 2 * (b[106 + g / 2] >> g % 2 * 4 & 15));
	uint low = grid[uint(q[0]) | (more & 1) << 8], high = grid[uint(q[1]) | (more & 2) << 7];
#endif
	UNROLL for (uint k = 0; k < 8; k++) {
		float v = scale * point(k < 4 ? low : high, k % 4);
		w[k] = (signs >> k & 1) != 0 ? -v : v;
	}
#endif
}

#elif WEIGHT == 10 // Q2_K
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 256 * 84;
	uint g = i % 256 / 16; // g is the group of 16 values that contains i
	float d = from_half(b + 80) * float(b[g] & 15), m = from_half(b + 82) * float(b[g] >> 4);
	device const uchar *q = b + 16 + 32 * (g / 8) + 16 * (g % 2) + i % 16;
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(q[k] >> g / 2 % 4 * 2 & 3) - m;
}

#elif WEIGHT == 11 // Q3_K
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 256 * 110;
	uint g = i % 256 / 16, at = 16 * (g % 2) + i % 16;
	uint s = (b[96 + g % 8] >> g / 8 * 4 & 15) | (uint(b[104 + g % 4]) >> g / 4 * 2 & 3) << 4;
	float d = from_half(b + 108) * float(int(s) - 32);
	device const uchar *low = b + 32 + 32 * (g / 8) + at, *high = b + at;
	UNROLL for (uint k = 0; k < 8; k++) {
		uint code = (low[k] >> g / 2 % 4 * 2 & 3) | (uint(high[k]) >> g / 2 & 1) << 2;
		w[k] = d * float(int(code) - 4);
	}
}

#elif WEIGHT == 34 // TQ1_0
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 256 * 54;
	float d = from_half(b + 52);
	// n is the number of bytes per run; a byte has five ternary digits, or four in the last run
	uint at = i % 256, n = at < 160 ? 32 : at < 240 ? 16 : 4;
	uint first = at < 160 ? 0 : at < 240 ? 160 : 240;
	device const uchar *q = b + (at < 160 ? 0 : at < 240 ? 32 : 48);
	UNROLL for (uint k = 0; k < 8; k++) {
		uint v = q[(at - first + k) % n];
		for (uint p = (at - first + k) / n; p > 0; p--) v = v * 3 & 255;
		w[k] = d * float(int(v * 3 >> 8) - 1);
	}
}

#elif WEIGHT == 35 // TQ2_0
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 256 * 66, *q = b + i % 256 / 128 * 32 + i % 32;
	float d = from_half(b + 64);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(int(q[k] >> i % 128 / 32 * 2 & 3) - 1);
}

#elif WEIGHT == 40 // NVFP4
constant float levels4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 64 * 36, *q = b + 4 + i % 64 / 16 * 8;
	// the scale is half of a UE4M3 number, because levels4 is doubled
	uint s = b[i % 64 / 16], e = s >> 3 & 15;
	float d = e == 0 ? float(s & 7) * 0.0009765625f : as_float((e + 119) << 23 | (s & 7) << 20);
	if (s == 127) d = 0.0f;
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * levels4[q[k] >> i % 16 / 8 * 4 & 15];
}

#elif WEIGHT == 41 // Q1_0
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 128 * 18;
	float d = from_half(b);
	uint bits = b[2 + i % 128 / 8];
	UNROLL for (uint k = 0; k < 8; k++) w[k] = (bits >> k & 1) != 0 ? d : -d;
}

#elif WEIGHT == 42 // Q2_0
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 64 * 18, *q = b + 2 + i % 64 / 4;
	float d = from_half(b);
	UNROLL for (uint k = 0; k < 8; k++) w[k] = d * float(int(q[k / 4] >> k % 4 * 2 & 3) - 1);
}

#elif WEIGHT == 45 || WEIGHT == 46 // TQ3_1S, TQ4_1S: 32 values in a rotated domain
#if WEIGHT == 45
constant float levels[8] = {-1.996684f, -1.291398f, -0.740341f, -0.247508f, 0.230106f, 0.725222f, 1.277503f, 1.988943f};
#else
constant float levels[16] = {-2.732590f, -2.069017f, -1.618046f, -1.256231f, -0.942340f, -0.656759f, -0.388048f, -0.128395f,
	0.128395f, 0.388048f, 0.656759f, 0.942340f, 1.256231f, 1.618046f, 2.069017f, 2.732590f};
#endif

// coded8 reads eight values, quarter a of the block, and applies the first three stages of the
// Walsh-Hadamard transform to them.
FUNC void coded8(device const uchar *b, uint a, thread float *v) {
	float d = from_half(b + a / 2 * 2);
#if WEIGHT == 45
	device const uchar *q = b + 4 + 3 * a;
	uint bits = uint(q[0]) | uint(q[1]) << 8 | uint(q[2]) << 16;
	UNROLL for (uint k = 0; k < 8; k++) v[k] = levels[bits >> 3 * k & 7] * d;
#else
	device const uchar *q = b + 4 + 4 * a;
	UNROLL for (uint k = 0; k < 8; k++) v[k] = levels[q[k / 2] >> k % 2 * 4 & 15] * d;
#endif
	UNROLL for (uint step = 1; step < 8; step *= 2) {
		UNROLL for (uint k = 0; k < 8; k++) {
			if ((k & step) != 0) continue;
			float x = v[k], y = v[k + step];
			v[k] = x + y;
			v[k + step] = x - y;
		}
	}
}

FUNC void load8(device const uchar *row, uint i, thread float *w) {
	device const uchar *b = row + i / 32 * (WEIGHT == 45 ? 16 : 20);
	uint part = i % 32 / 8;
	float x[8], y[8], z[8];
	coded8(b, 0, w);
	coded8(b, 1, x);
	coded8(b, 2, y);
	coded8(b, 3, z);
	// the last two stages of the transform, only for this quarter
	UNROLL for (uint k = 0; k < 8; k++) {
		float low = part % 2 == 0 ? w[k] + x[k] : w[k] - x[k], high = part % 2 == 0 ? y[k] + z[k] : y[k] - z[k];
		w[k] = part < 2 ? low + high : low - high;
	}
	uint signs = 0x696b4b4au >> 8 * part;
	UNROLL for (uint k = 0; k < 8; k++) w[k] *= (signs >> k & 1) != 0 ? -0.17677669529663688f : 0.17677669529663688f;
}
#endif

#if WEIGHT < 2 || WEIGHT == 30
FUNC void load8(device const uchar *row, uint i, thread float *w) {
	UNROLL for (uint k = 0; k < 8; k++) w[k] = load1(row, i + k);
}
FUNC void load_run(device const uchar *row, device const uint *grid, uint i, uint cols, thread float *w) {
	UNROLL for (uint k = 0; k < 8; k++) w[k] = i + k < cols ? load1(row, i + k) : 0.0f;
}
// rows consist of whole blocks, so no row ends inside a run of eight
#elif WEIGHT == 16 || WEIGHT == 17 || WEIGHT == 18 || WEIGHT == 19 || WEIGHT == 21 || WEIGHT == 22 || WEIGHT == 29
FUNC void load_run(device const uchar *row, device const uint *grid, uint i, uint cols, thread float *w) { load8(row, grid, i, w); }
#else // rows consist of whole blocks, so no row ends inside a run of eight
FUNC void load_run(device const uchar *row, device const uint *grid, uint i, uint cols, thread float *w) { load8(row, i, w); }
#endif
