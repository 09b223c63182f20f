// cell_of is where a row's head lies in the cache: pages of 64 cells, each head's
// cells together.
FUNC device uchar *cell_of(device uchar *cache, device const int *rows, device const int *tables, uint row, uint head,
	uint kv_heads, uint head_bytes) {
	uint position = uint(rows[4 * row]);
	uint page = uint(tables[uint(rows[4 * row + 2]) + position / 64]);
	return cache + ((wide(page) * kv_heads + head) * 64 + position % 64) * head_bytes;
}

// finite_half rounds to f16; infinity becomes the largest number and NaN 0.
FUNC ushort finite_half(float v) {
	uint h = float_to_half(v);
	if ((h & 0x7c00u) == 0x7c00u) h = (h & 0x3ffu) != 0 ? 0 : (h & 0x8000u) | 0x7bffu;
	return ushort(h);
}

// to_bfloat rounds to the nearest bfloat16, even; a NaN stays one.
FUNC ushort to_bfloat(float v) {
	uint u = as_uint(v);
	if ((u & 0x7fffffffu) > 0x7f800000u) return ushort(u >> 16 | 64);
	return ushort((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
