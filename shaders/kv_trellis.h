// kv_trellis encodes one trellis block of one head of one row and writes it to the row's cell.
// It rotates the values, chooses the codes and computes the scale. x is
// [rows][kv_heads][head_dim]. In the grid, y is the KV head and z is the row.
// Source: engine/kv, encodeTrellis.
KERNEL(kv_trellis)(IN(float, x, 0), IN(int, rows, 1), IN(int, tables, 2), IN(float, form, 3), INOUT(uchar, cache, 4),
	INOUT(uint, counts, 5), PARAMS(kv_trellis_params, p, 6) INDICES) {
	SHARED(float, v, SIZE);
	SHARED(int, z, SIZE);
	SHARED(uchar, w, SIZE);
	SHARED(uint, cost, 2 * STATES);
	SHARED(uchar, from, SIZE * STATES);
	uint head = group_y, row = group_z, t = thread_x;
	device const float *values = x + (row * p.kv_heads + head) * p.head_dim;
	wide cell;
	if (p.inspects != 0 && !repeats(rows, row)) inspect(values, p.head_dim, counts, t);
	if (!cell_of(rows, tables, row, head, p.kv_heads, p.head_bytes, 0, p.late, p.exact, 0, 0, 0, cell)) return;
	for (uint i = t; i < SIZE; i += THREADS) {
		v[i] = i < p.dim ? values[p.first + i] : 0.0f;
	}
	turn(v, form + PRE, p.stride, p.forward, SIZE, t);
	uint lost = trellis_block(cache + cell + p.at, v, z, w, cost, from, form + p.levels_at, p.unit, p.code_at, p.scale_at, t);
	count(counts + SATURATED + 2 * p.side, lost);
}
