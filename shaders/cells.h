// repeats reports whether a row is a copy of the first: no other row has its position
// in its sequence.
FUNC bool repeats(device const int *rows, uint row) {
	return row > 0 && rows[4 * row] == rows[0] && rows[4 * row + 2] == rows[2];
}

// cell_of is where a row's head lies in a part of the cache, and false where the row
// is not written there: pages of 64 cells, each head's cells together. Part 0 is the
// packed cells, which with late wait where the row has an exact page; part 1 is the
// exact pages, those from own on at passing times 64 bytes; part 2 is the first sinks
// positions of each sequence. exact is how far in tables a sequence's exact pages lie
// behind its packed ones.
// A row that only fills a decode step up, a copy of the first, is written nowhere.
FUNC bool cell_of(device const int *rows, device const int *tables, uint row, uint head, uint kv_heads, uint head_bytes, uint part, uint late,
	uint exact, uint own, uint passing, uint sinks, thread wide &at) {
	uint position = uint(rows[4 * row]);
	if (repeats(rows, row)) return false;
	if (part == 2) {
		at = ((wide(uint(rows[4 * row + 3])) * kv_heads + head) * sinks + position) * head_bytes;
		return position < sinks;
	}
	uint index = uint(rows[4 * row + 2]) + position / 64;
	device const int *table = tables + index;
	bool kept = (part == 1 || late != 0) && table[exact] >= 0;
	if (part == 1 ? !kept : kept) return false;
	uint page = uint(part == 1 ? table[exact] : table[0]);
	wide base = 0;
	if (part == 1 && page >= own) {
		page -= own;
		base = wide(passing) * 64;
	}
	at = base + ((wide(page) * kv_heads + head) * 64 + position % 64) * head_bytes;
	return true;
}

// lost_half is 1 where finite_half cannot keep v.
FUNC uint lost_half(float v) { return (float_to_half(v) & 0x7c00u) == 0x7c00u ? 1u : 0u; }

// inspect counts the values of a row of a KV head as broken if one of them is no
// number. It is for one SIMD group.
FUNC void inspect(device const float *x, uint n, device uint *counts, uint thread_index) {
	float broken = 0.0f;
	for (uint i = thread_index % 32; i < n; i += 32) {
		if ((as_uint(x[i]) & 0x7f800000u) == 0x7f800000u) broken = 1.0f;
	}
	broken = simd_max(broken);
	if (thread_index % 32 == 0) count(counts + BROKEN, uint(broken));
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
