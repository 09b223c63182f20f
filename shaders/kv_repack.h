// kv_repack encodes one trellis block of one head of one cell, from the cell's exact row. It
// packs pages after they are full. packs has three ints per page: the packed page, the exact
// page and the sequence. own and passing locate the exact page as in cell_of. In the grid, y is
// the KV head and z is 64 cells for each page.
//
// If TURNS is not 0, the sequence has its own calibration, mean and gain,
// [sequences][kv_heads][head_dim]. The kernel then undoes the rotation of the exact values,
// normalises their channels, and rotates them again.
KERNEL(kv_repack)(IN(int, packs, 0), IN(uchar, exact, 1), IN(float, form, 2), IN(float, mean, 3), IN(float, gain, 4),
	INOUT(uchar, cache, 5), INOUT(uint, counts, 6), PARAMS(kv_repack_params, p, 7) INDICES) {
	SHARED(float, v, SIZE);
	SHARED(int, z, SIZE);
	SHARED(uchar, w, SIZE);
	SHARED(uint, cost, 2 * STATES);
	SHARED(uchar, from, SIZE * STATES);
	uint head = group_y, pack = p.first + group_z / 64, cell = group_z % 64, t = thread_x;
	uint from_page = uint(packs[3 * pack + 1]), page = from_page < p.own ? from_page : from_page - p.own;
	device const uchar *row = exact + (from_page < p.own ? 0 : wide(p.passing) * 64) +
		((wide(page) * p.kv_heads + head) * 64 + cell) * p.exact_bytes;
	for (uint i = t * 8; i < SIZE; i += THREADS * 8) {
		float x[8];
		exact_load8(p.exact_pack, p.lane_at + SIZE, row, p.lane_at + i, x);
		for (uint k = 0; k < 8; k++) v[i + k] = x[k];
	}
	barrier();
#if TURNS
	uint channel = (uint(packs[3 * pack + 2]) * p.kv_heads + head) * p.head_dim + p.first_value;
	turn_back(v, form + PRE, p.stride, p.inverse, SIZE, t);
	for (uint i = t; i < SIZE; i += THREADS) v[i] = i < p.dim ? (v[i] - mean[channel + i]) * gain[channel + i] : 0.0f;
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
#endif
	page = uint(packs[3 * pack]);
	uint lost = trellis_block(cache + ((wide(page) * p.kv_heads + head) * 64 + cell) * p.head_bytes + p.at, v, z, w, cost, from, form + p.levels_at, p.unit,
		p.code_at, p.scale_at, t);
	count(counts + SATURATED + 2 * p.side, lost);
}
