// For each of the n rows r of x, dot_rows adds this lane's share of the dot product of the weight
// row w and row r to sum[r]. n is at most ROWS. A row has cols values. first is the lane. The
// caller adds the shares of the 32 lanes. The order of the additions in a sum does not depend on n.
FUNC void dot_rows(device const uchar *w, device const uint *grid, device const float *x, uint cols, uint n, uint first, thread float *sum) {
	for (uint i = first * 8; i < cols; i += 256) {
		float v[8];
		load_run(w, grid, i, cols, v);
		uint count = min(8u, cols - i);
		UNROLL for (uint r = 0; r < ROWS; r++) {
			if (r >= n) break;
			device const float *from = x + r * cols + i;
			if (count == 8) {
				UNROLL for (uint k = 0; k < 8; k++) sum[r] = fma(v[k], from[k], sum[r]);
			} else {
				for (uint k = 0; k < count; k++) sum[r] = fma(v[k], from[k], sum[r]);
			}
		}
	}
}
