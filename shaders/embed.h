// embed copies the rows of the weight matrix w whose numbers are in ids to y. It dequantises them
// and multiplies them by scale. w is [rows][cols] and y is [count][cols]. A thread converts eight
// columns. An id that is negative or too large reads the last row.
KERNEL(embed)(IN(uchar, w, 0), IN(int, ids, 1), IN(uint, grid, 2), OUT(float, y, 3), PARAMS(embed_params, p, 4) INDICES) {
	uint i = group_x * THREADS + thread_x;
	uint runs = (p.cols + 7) / 8;
	if (i >= p.count * runs) return;
	uint row = i / runs, column = i % runs * 8;
	float v[8];
	load_run(w + wide(min(uint(ids[row]), p.rows - 1)) * p.row_bytes, grid, column, p.cols, v);
	for (uint k = 0; k < min(8u, p.cols - column); k++) y[row * p.cols + column + k] = v[k] * p.scale;
}
