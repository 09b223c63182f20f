// kv_store writes rows to their cells as plain floats. The constant PACK selects F32, F16 or BF16.
// It writes values first to first+dim of every head to its cell, starting at byte at of the cell.
// x is [rows][kv_heads][head_dim]. In the grid, x covers the dim values, y is the KV head and z is
// the row.
KERNEL(kv_store)(IN(float, x, 0), IN(int, rows, 1), IN(int, tables, 2), INOUT(uchar, cache, 3), INOUT(uint, counts, 4),
	PARAMS(kv_store_params, p, 5) INDICES) {
	uint at = group_x * THREADS + thread_x, head = group_y, row = group_z;
	device const float *values = x + (row * p.kv_heads + head) * p.head_dim;
	wide cell;
	if (p.inspects != 0 && group_x == 0 && simd_x == 0 && !repeats(rows, row)) inspect(values, p.head_dim, counts, thread_x);
	if (at >= p.dim || !cell_of(rows, tables, row, head, p.kv_heads, p.head_bytes, p.part, p.late, p.exact, p.own, p.passing, p.sinks, cell)) return;
	device uchar *to = cache + cell + p.at;
	float v = values[p.first + at];
	if (PACK == F32_VALUES) ((device float *)to)[at] = v;
	if (PACK == F16_VALUES) {
		((device ushort *)to)[at] = finite_half(v);
		count(counts + SATURATED + 2 * p.side, lost_half(v));
	}
	if (PACK == BF16_VALUES) ((device ushort *)to)[at] = to_bfloat(v);
}
