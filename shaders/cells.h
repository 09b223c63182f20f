// How the writing kernels find the place of a row in the cache, and the conversions that they
// share.

// repeats reports whether a row is a copy of row 0 that only pads a decode step. Real rows of
// one sequence have different positions, so a row with the position and the page table of row 0
// is a copy.
FUNC bool repeats(device const int *rows, uint row) {
	return row > 0 && rows[4 * row] == rows[0] && rows[4 * row + 2] == rows[2];
}

// cell_of finds the byte offset, at, of one head of a row in one tier of the cache. It returns
// false if the row is not written to that tier. The parameter part is the tier:
//
// - part 0: the packed cells. If late is not 0, a row that has an exact page is packed later, a
//   whole page at a time, so it is not written now (packed by page).
// - part 1: the exact pages. A row without an exact page is not written. The first own pages are
//   private. Pages from number own on are passing pages, in memory that all layers share, which
//   begins at passing·64 bytes.
// - part 2: the pinned rows, which are the first sinks positions of each sequence.
//
// A page has 64 cells and stores all cells of a head next to each other. tables holds the page
// numbers of a sequence's packed pages; tables[i + exact] is the exact page for the positions
// of the packed page tables[i], or -1. Padding rows (see repeats) are never written.
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

// lost_half returns 1 if v becomes infinite or NaN as an f16, so that finite_half has to
// replace it, and 0 otherwise.
FUNC uint lost_half(float v) { return (float_to_half(v) & 0x7c00u) == 0x7c00u ? 1u : 0u; }

// inspect adds 1 to the counter BROKEN if the n values of x, one row of one KV head, include
// NaN or infinity. One SIMD group calls it.
FUNC void inspect(device const float *x, uint n, device uint *counts, uint thread_index) {
	float broken = 0.0f;
	for (uint i = thread_index % 32; i < n; i += 32) {
		if ((as_uint(x[i]) & 0x7f800000u) == 0x7f800000u) broken = 1.0f;
	}
	broken = simd_max(broken);
	if (thread_index % 32 == 0) count(counts + BROKEN, uint(broken));
}

// finite_half converts to f16. Infinity becomes the largest finite number and NaN becomes 0.
FUNC ushort finite_half(float v) {
	uint h = float_to_half(v);
	if ((h & 0x7c00u) == 0x7c00u) h = (h & 0x3ffu) != 0 ? 0 : (h & 0x8000u) | 0x7bffu;
	return ushort(h);
}

// to_bfloat rounds to the nearest bfloat16, ties to even. NaN stays NaN.
FUNC ushort to_bfloat(float v) {
	uint u = as_uint(v);
	if ((u & 0x7fffffffu) > 0x7f800000u) return ushort(u >> 16 | 64);
	return ushort((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
