// matmul computes x·wᵀ + bias for many rows of x. A threadgroup makes a tile of
// 64 columns of y for 32 rows; w and x pass through shared memory 32 values of
// the inner dimension at a time, and a thread keeps 4 by 4 sums.
KERNEL(matmul)(IN(uchar, w, 0), IN(float, x, 1), IN(float, bias, 2), OUT(float, y, 3), PARAMS(matmul_params, p, 4) INDICES) {
	SHARED(float, tile_w, 64 * 33);
	SHARED(float, tile_x, 32 * 33);
	uint column = group_x * 64, first = group_y * 32;
	uint at_w = thread_x % 16, at_x = thread_x / 16; // the thread's sums: every 16th column, every 8th row
	float sum[16];
	for (uint i = 0; i < 16; i++) sum[i] = 0.0f;
	for (uint inner = 0; inner < p.cols; inner += 32) {
		for (uint run = thread_x; run < 256; run += THREADS) {
			uint row = column + run / 4, i = inner + run % 4 * 8;
			float v[8];
			for (uint k = 0; k < 8; k++) v[k] = 0.0f;
			if (row < p.rows && i < p.cols) load_run(w + wide(row) * p.row_bytes, i, p.cols, v);
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
	for (uint i = 0; i < 4; i++) {
		uint row = column + at_w + 16 * i;
		if (row >= p.rows) break;
		for (uint j = 0; j < 4; j++) {
			uint batch = first + at_x + 8 * j;
			if (batch < p.batch) y[batch * p.rows + row] = sum[4 * i + j] + (p.bias != 0 ? bias[row] : 0.0f);
		}
	}
}
