// matmul computes y = x·wᵀ + bias for many rows of x. w is [rows][cols], x is [batch][cols] and
// y is [batch][rows]. A threadgroup computes a tile of y, 32 rows by 64 columns. It stages w
// (dequantised) and x in shared memory, 32 values of the inner dimension at a time. There are
// three inner products:
//
// - MMA 0: a thread keeps 4 by 4 sums.
// - MMA 1: a SIMD group multiplies matrices of halves with one instruction, mma. Each value is
//   stored as the sum of two halves, high and low, which has 22 significant bits. Beforehand,
//   each run of 32 values is multiplied by a power of two that makes the largest one 2^14 to
//   2^15. Three products, high·low, low·high and high·high, have nearly the precision of float.
// - MMA 2: a SIMD group multiplies matrices of 8 by 8 floats.
#if MMA == 1
#define STRIDE 20 // words per row: 16 for the 32 halves, and 4 of padding to avoid bank conflicts

// exponent returns the biased exponent of the largest of 32 values. Four lanes hold eight values
// each. The result is at least 15.
FUNC uint exponent(thread const float *v) {
	float most = 0.0f;
	UNROLL for (uint k = 0; k < 8; k++) most = max(most, fabs(v[k]));
	most = max(most, simd_shuffle_xor(most, 1u));
	most = max(most, simd_shuffle_xor(most, 2u));
	return max(as_uint(most) >> 23, 15u);
}

// halves multiplies eight values by scale and splits each into two halves. high is the value
// rounded to a half, and low is the rounded rest. A word holds two halves.
FUNC void halves(thread const float *v, float scale, threadgroup uint *high, threadgroup uint *low) {
	UNROLL for (uint k = 0; k < 8; k += 2) {
		float a = v[k] * scale, b = v[k + 1] * scale;
		ushort first = float_to_half(a), second = float_to_half(b);
		high[k / 2] = uint(first) | uint(second) << 16;
		low[k / 2] = uint(float_to_half(a - half_to_float(first))) | uint(float_to_half(b - half_to_float(second))) << 16;
	}
}
#endif

KERNEL(matmul)(IN(uchar, w, 0), IN(float, x, 1), IN(float, bias, 2), IN(uint, grid, 3), OUT(float, y, 4),
	PARAMS(matmul_params, p, 5) INDICES) {
	uint column = group_x * 64, first = group_y * 32;
#if MMA == 1
	float sum[16];
	for (uint i = 0; i < 16; i++) sum[i] = 0.0f;
	SHARED(uint, high, 96 * STRIDE); // 64 rows of w, followed by 32 rows of x
	SHARED(uint, low, 96 * STRIDE);
	SHARED(float, size, 96); // inverse of the power of two that a row was multiplied by
	uint quad = lane / 4, part_of = lane % 4;
#elif MMA == 2
	SHARED(float, tile, 96 * 36); // 64 rows of w, followed by 32 rows of x; reused for 32 rows of y
	matrix8 sum[8];
	for (uint i = 0; i < 8; i++) matrix_clear(sum[i]);
#endif
#if MMA
	for (uint inner = 0; inner < p.cols; inner += 32) {
		for (uint run = thread_x; run < 384; run += THREADS) {
			uint row = run < 256 ? column + run / 4 : first + (run - 256) / 4, i = inner + run % 4 * 8;
			float v[8];
			for (uint k = 0; k < 8; k++) v[k] = 0.0f;
			if (run < 256) {
				if (row < p.rows && i < p.cols) load_run(w + wide(row) * p.row_bytes, grid, i, p.cols, v);
			} else if (row < p.batch) {
				for (uint k = 0; k < 8; k++) v[k] = i + k < p.cols ? x[row * p.cols + i + k] : 0.0f;
			}
#if MMA == 1
			uint e = exponent(v), at = run / 4 * STRIDE + run % 4 * 4;
			halves(v, as_float((268 - e) << 23), high + at, low + at);
			if (run % 4 == 0) size[run / 4] = as_float((e - 14) << 23);
#else
			for (uint k = 0; k < 8; k++) tile[run / 4 * 36 + run % 4 * 8 + k] = v[k];
#endif
		}
		barrier();
#if MMA == 1
		float part[16];
		for (uint i = 0; i < 16; i++) part[i] = 0.0f;
		// 8 words, which are 16 values of the inner dimension
		UNROLL for (uint k = 0; k < 16; k += 8) {
			uint a[4], b[2], c[4], d[2];
			UNROLL for (uint i = 0; i < 4; i++) {
				uint at = (simd_x * 16 + quad + i % 2 * 8) * STRIDE + k + part_of + i / 2 * 4;
				a[i] = high[at];
				c[i] = low[at];
			}
			UNROLL for (uint j = 0; j < 4; j++) {
				UNROLL for (uint i = 0; i < 2; i++) {
					uint at = (64 + j * 8 + quad) * STRIDE + k + part_of + i * 4;
					b[i] = high[at];
					d[i] = low[at];
				}
				mma(part + 4 * j, a, d);
				mma(part + 4 * j, c, b);
				mma(part + 4 * j, a, b);
			}
		}
		UNROLL for (uint i = 0; i < 16; i++) {
			sum[i] += part[i] * size[simd_x * 16 + quad + i / 2 % 2 * 8] * size[64 + i / 4 * 8 + part_of * 2 + i % 2];
		}
#else
		for (uint k = 0; k < 32; k += 8) {
			matrix8 a, b[2];
			for (uint i = 0; i < 2; i++) matrix_load_turned(b[i], tile + (simd_x * 16 + i * 8) * 36 + k, 36);
			for (uint j = 0; j < 4; j++) {
				matrix_load(a, tile + (64 + j * 8) * 36 + k, 36);
				for (uint i = 0; i < 2; i++) matrix_multiply(sum[2 * j + i], a, b[i]);
			}
		}
#endif
		barrier();
	}
#else
	SHARED(float, tile_w, 64 * 33);
	SHARED(float, tile_x, 32 * 33);
	float sum[16];
	for (uint i = 0; i < 16; i++) sum[i] = 0.0f;
	// a thread computes columns at_w + 16·i and rows at_x + 8·j of the tile
	uint at_w = thread_x % 16, at_x = thread_x / 16;
	for (uint inner = 0; inner < p.cols; inner += 32) {
		for (uint run = thread_x; run < 256; run += THREADS) {
			uint row = column + run / 4, i = inner + run % 4 * 8;
			float v[8];
			for (uint k = 0; k < 8; k++) v[k] = 0.0f;
			if (row < p.rows && i < p.cols) load_run(w + wide(row) * p.row_bytes, grid, i, p.cols, v);
			for (uint k = 0; k < 8; k++) tile_w[run / 4 * 33 + run % 4 * 8 + k] = v[k];
		}
		for (uint i = thread_x; i < 1024; i += THREADS) {
			uint row = first + i / 32, k = inner + i % 32;
			tile_x[i / 32 * 33 + i % 32] = row < p.batch && k < p.cols ? x[row * p.cols + k] : 0.0f;
		}
		barrier();
		for (uint k = 0; k < 32; k++) {
			float a[4], b[4];
			UNROLL for (uint i = 0; i < 4; i++) {
				a[i] = tile_w[(at_w + 16 * i) * 33 + k];
				b[i] = tile_x[(at_x + 8 * i) * 33 + k];
			}
			UNROLL for (uint i = 0; i < 4; i++) {
				UNROLL for (uint j = 0; j < 4; j++) sum[4 * i + j] = fma(a[i], b[j], sum[4 * i + j]);
			}
		}
		barrier();
	}
#endif
#if MMA == 2
	for (uint i = 0; i < 8; i++) matrix_store(sum[i], tile + i / 2 * 8 * 68 + simd_x * 16 + i % 2 * 8, 68);
	barrier();
#endif
	UNROLL for (uint i = 0; i < 16; i++) {
#if MMA == 1
		uint row = column + simd_x * 16 + quad + i / 2 % 2 * 8, batch = first + i / 4 * 8 + part_of * 2 + i % 2;
		float v = sum[i];
#elif MMA == 2
		uint at = i * THREADS + thread_x, row = column + at % 64, batch = first + at / 64;
		float v = tile[at / 64 * 68 + at % 64];
#else
		uint row = column + at_w + i / 4 * 16, batch = first + at_x + i % 4 * 8;
		float v = sum[i];
#endif
		if (row < p.rows && batch < p.batch) y[batch * p.rows + row] = v + (p.bias != 0 ? bias[row] : 0.0f);
	}
}
