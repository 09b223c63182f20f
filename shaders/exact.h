// How attention finds and reads rows in exact form, which are stored in addition to the packed
// cache.
//
// PACKED is the value of pack for a position whose packed cell is read.
#define PACKED 255

// exact_cell decides which tier attention reads for a position of one KV head. It sets pack to
// the packing of that tier's rows and returns the row's byte offset in the buffer of the exact
// tiers. If attention reads the packed cell, pack is PACKED.
//
// The first sinks positions are pinned rows. Positions from exact_from on are read from exact
// pages, if they have one: exact lists the exact page of each page of the sequence, or -1. The
// first own pages are private and begin at own_at. The others are passing pages, which begin at
// passing_at. Both offsets are in units of 64 bytes. A row of one head takes sink_bytes bytes
// if it is pinned and bytes bytes if it is exact; 0 means that the tier does not exist.
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

// exact_load8 reads eight values of an exact row, from value i on, as floats. Rows hold f16
// values, or 8-bit codes in blocks of 32 with an f16 scale. Values from index lanes on are 0.
FUNC void exact_load8(uint pack, uint lanes, device const uchar *row, uint i, thread float *v) {
	if (pack == INT8_CODES) {
		device const uchar *block = row + i / 32 * 34;
		float d = from_half(block);
		UNROLL for (uint k = 0; k < 8; k++) v[k] = d * float(int(block[2 + i % 32 + k] ^ 128u) - 128);
		return;
	}
	for (uint k = 0; k < 8; k++) v[k] = i + k < lanes ? half_to_float(((device const ushort *)row)[i + k]) : 0.0f;
}
