// How attention finds and reads what is kept exactly beside the packed cache.
#define PACKED 255

// exact_cell is where a position of one KV head lies in the memory of exact pages
// and sinks, and pack how its values lie there; PACKED where it is read packed.
// Pages from own on lie at passing_at; places count 64 bytes. exact is the exact
// pages of the sequence, -1 where a page has none.
FUNC wide exact_cell(uint position, device const int *exact, uint exact_from, uint sinks, uint sink_bytes, uint seq, uint own, uint own_at,
	uint passing_at, uint bytes, uint exact_pack, uint kv_heads, uint kv_head, thread uint &pack) {
	pack = F16_VALUES;
	if (position < sinks && sink_bytes != 0) return ((wide(seq) * kv_heads + kv_head) * sinks + position) * sink_bytes;
	pack = PACKED;
	if (position < exact_from || bytes == 0) return 0;
	int page = exact[position / 64];
	if (page < 0) return 0;
	pack = exact_pack;
	uint n = uint(page) < own ? uint(page) : uint(page) - own;
	return wide(uint(page) < own ? own_at : passing_at) * 64 + ((wide(n) * kv_heads + kv_head) * 64 + position % 64) * bytes;
}

// exact_load8 reads eight values of an exact row, 8-bit codes or f16, from value i
// on; zeros beyond its lanes.
FUNC void exact_load8(uint pack, uint lanes, device const uchar *row, uint i, thread float *v) {
	if (pack == INT8_CODES) {
		device const uchar *block = row + i / 32 * 34;
		float d = from_half(block);
		UNROLL for (uint k = 0; k < 8; k++) v[k] = d * float(int(block[2 + i % 32 + k] ^ 128u) - 128);
		return;
	}
	for (uint k = 0; k < 8; k++) v[k] = i + k < lanes ? half_to_float(((device const ushort *)row)[i + k]) : 0.0f;
}
