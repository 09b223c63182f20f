// attend computes softmax(scale·QKᵀ)V over one part of the context (split-KV, as in flash
// decoding), for one tile of rows of a sequence and some query heads of one KV head. It writes
// the maximum of the scores, the sum of the weights, and the weighted sum of V in V's rotated
// domain; attend_combine merges the parts. All queries of a threadgroup share one read of the K
// and V codes.
//
// A part is a whole number of chunks of CHUNK positions. In a chunk, the kernel computes all
// scores before it reads V, so that Sparse V can compare each weight with the largest of the
// chunk. Weights below p.sparse_v times that weight skip their row of V.
//
// - q is [rows][heads][DK], in the domain of the packed keys. res has the same shape. If K_RES is
//   1, it is the query vector for the signs of the residual. If K_RES is 2, it is the query for
//   exact keys, because those are not normalised and the packed keys are.
// - rows has four ints per row: position, length of the sequence after the batch, index in tables
//   of the sequence's first page, and sequence.
// - tiles has two ints per tile: the first row and the number of rows, at most QUERIES/HEADS. The
//   number is negative if the tile is padding, which the counters leave out.
// - partial is [rows][heads][parts][DV + 2]: maximum, sum of weights, weighted sum.
// - counts has the counters of count.h.
// - k_exact and v_exact have the exact pages and pinned rows of the layer. They are read if EXACT
//   is 1. All rows of a tile read the same pages from their exact copies.
// - shift is [rows][heads]: the product of the query and the keys' mean (kv_shift), which the
//   scores lack because packed keys are stored without their mean. With K_RES 2 it is added to
//   the scores of packed keys, and with p.shifted to all scores, before scaling and the soft cap.
//
// Constants: QUERIES is the largest number of queries (rows times heads) in a threadgroup, and
// LANES is the largest head size that the instance supports. If READERS is 1, the packing of K
// and V is compiled in; if it is 0, the kernel reads it from the parameters.
//
// Sources: arXiv 1706.03762, 2205.14135 (merge of the parts).
#define CHUNK 512
#define HEADS p.slice_heads
#define DK p.dk
#define DV p.dv
#if READERS == 0
#undef K_PACK
#undef K_BITS
#undef K_AFFINE
#undef K_TAIL
#undef V_PACK
#undef V_BITS
#undef V_AFFINE
#undef V_TAIL
#define K_PACK p.k_pack
#define K_BITS p.k_bits
#define K_AFFINE p.k_affine
#define K_TAIL p.k_tail
#define V_PACK p.v_pack
#define V_BITS p.v_bits
#define V_AFFINE p.v_affine
#define V_TAIL p.v_tail
#define K_LEVELS 256
#define V_LEVELS 256
#else
#if K_PACK == CYCLIC_CODES
#undef K_BITS
#define K_BITS p.k_bits
#define K_LEVELS 256
#else
#define K_LEVELS 32
#endif
#if V_PACK == CYCLIC_CODES
#undef V_BITS
#define V_BITS p.v_bits
#define V_LEVELS 256
#else
#define V_LEVELS 32
#endif
#endif
#if K_RES == 2
#define EXACT_QUERY signs
#else
#define EXACT_QUERY query
#endif
#define RUNS ((DV + 7) / 8)
#define K_ROW(page) (k_cache + ((wide(page) * p.kv_heads + kv_head) * 64 + position % 64) * p.k_head_bytes)
#define V_ROW(page) (v_cache + ((wide(page) * p.kv_heads + kv_head) * 64 + position % 64) * p.v_head_bytes)
#define SUBSETS (THREADS / RUNS)
#define ROOM (QUERIES * CHUNK < THREADS * 8 ? THREADS * 8 : QUERIES * CHUNK)
#define SMALLEST (-3.4e38f) // replaces a NaN score; LOWEST marks a masked cell

KERNEL(attend)(IN(float, q, 0), IN(float, res, 1), IN(int, rows, 2), IN(int, tables, 3), IN(int, tiles, 4), IN(uchar, k_cache, 5),
	IN(uchar, v_cache, 6), IN(float, k_form, 7), IN(float, v_form, 8), OUT(float, partial, 9), INOUT(uint, counts, 10),
	IN(uchar, k_exact, 11), IN(uchar, v_exact, 12), IN(float, shift, 13), PARAMS(attend_params, p, 14) INDICES) {
	SHARED(float, query, QUERIES * LANES);
#if K_RES
	SHARED(float, signs, QUERIES * LANES);
#endif
	SHARED(float, score, ROOM);
	SHARED(float, k_levels, K_LEVELS);
	SHARED(float, v_levels, V_LEVELS);
	SHARED(float, top, QUERIES);
	SHARED(float, total, QUERIES);
	SHARED(float, fade, QUERIES); // factor for the sums of earlier chunks
	SHARED(float, gain, QUERIES); // factor for the weights of this chunk
	uint t = thread_x, slices = (p.group + HEADS - 1) / HEADS;
	uint kv_head = group_y / slices, first_head = group_y % slices * HEADS;
	uint heads = min(HEADS, p.group - first_head);
	first_head += kv_head * p.group;
	int listed = tiles[2 * group_z + 1];
	uint first = uint(tiles[2 * group_z]), count_rows = uint(listed < 0 ? -listed : listed);
	for (uint i = t; i < QUERIES * LANES; i += THREADS) {
		uint j = i / LANES, at = i % LANES;
		bool there = j / HEADS < count_rows && j % HEADS < heads && at < DK;
		uint from = ((first + j / HEADS) * p.heads + first_head + j % HEADS) * DK + at;
		query[i] = there ? q[from] : 0.0f;
#if K_RES
		signs[i] = there ? res[from] : 0.0f;
#endif
	}
	for (uint i = t; i < K_LEVELS; i += THREADS) k_levels[i] = i < p.k_levels ? k_form[p.k_levels_at + i] * p.k_unit : 0.0f;
	for (uint i = t; i < V_LEVELS; i += THREADS) v_levels[i] = i < p.v_levels ? v_form[p.v_levels_at + i] * p.v_unit : 0.0f;
	if (t < QUERIES) {
		top[t] = LOWEST;
		total[t] = 0.0f;
	}
	// [lo, hi) are the positions that at least one row of the tile sees; begin and end are the
	// chunks of this part.
	uint oldest = uint(rows[4 * first]), newest = uint(rows[4 * (first + count_rows - 1)]);
	uint lo = p.window > 0 && oldest + 1 > p.window ? oldest + 1 - p.window : 0;
	uint hi = p.bidirectional != 0 ? uint(rows[4 * first + 1]) : newest + 1;
	device const int *table = tables + rows[4 * first + 2];
#if EXACT
	uint exact_from = p.newest == 0 ? hi : oldest + 1 > p.newest ? oldest + 1 - p.newest : 0, seq = uint(rows[4 * first + 3]);
	exact_from -= exact_from % 64;
#endif
	uint chunks = (hi - 1) / CHUNK - lo / CHUNK + 1, share = (chunks + p.parts - 1) / p.parts;
	uint begin = lo / CHUNK + group_x * share, end = min(begin + share, lo / CHUNK + chunks);
	uint run = t % RUNS, subset = t / RUNS, read = 0;
	float sum[QUERIES * 8];
	for (uint i = 0; i < QUERIES * 8; i++) sum[i] = 0.0f;
	for (uint chunk = begin; chunk < end; chunk++) {
		barrier();
		for (uint cell = t; cell < CHUNK; cell += THREADS) {
			uint position = chunk * CHUNK + cell;
			float dot[QUERIES];
			for (uint j = 0; j < QUERIES; j++) dot[j] = 0.0f;
			bool packed = position >= lo && position < hi;
#if EXACT
			uint pack = PACKED;
			if (packed) {
				wide at = exact_cell(position, table + p.exact_table, exact_from, p.sinks, p.k_sink_bytes, seq, p.k_own, p.k_own_at, p.k_passing_at,
					p.k_exact_bytes, p.k_exact_pack, p.kv_heads, kv_head, pack);
				packed = pack == PACKED;
				device const uchar *row = k_exact + at;
				uint lanes = pack == INT8_CODES ? DK - K_TAIL : DK;
				for (uint i = 0; i < lanes && !packed; i += 8) {
					float v[8];
					exact_load8(pack, lanes, row, i, v);
					for (uint j = 0; j < QUERIES; j++) {
						UNROLL for (uint k = 0; k < 8; k++) dot[j] = fma(EXACT_QUERY[j * LANES + i + k], v[k], dot[j]);
					}
				}
				for (uint i = lanes; i < DK && !packed; i++) {
					float v = from_half(row + p.k_exact_tail + 2 * (i - lanes));
					for (uint j = 0; j < QUERIES; j++) dot[j] = fma(EXACT_QUERY[j * LANES + i], v, dot[j]);
				}
			}
#endif
			if (packed) {
				device const uchar *row = K_ROW(uint(table[position / 64]));
				for (uint i = 0; i < DK - K_TAIL; i += 8) {
					float v[8];
					form_load8(K_PACK, K_BITS, K_AFFINE, DK - K_TAIL, row, i, p.k_elems, p.k_bytes, p.k_code_at, p.k_high_at,
						p.k_scale_at, p.k_min_at, p.k_cut, k_levels, v);
					for (uint j = 0; j < QUERIES; j++) {
						UNROLL for (uint k = 0; k < 8; k++) dot[j] = fma(query[j * LANES + i + k], v[k], dot[j]);
					}
#if K_RES == 1
					device const uchar *block = row + i / p.k_elems * p.k_bytes;
					uint bits = block[p.k_res_bits + i % p.k_elems / 8];
					float d = from_half(block + p.k_res_at);
					for (uint j = 0; j < QUERIES; j++) {
						for (uint k = 0; k < 8; k++) dot[j] = fma(signs[j * LANES + i + k], (bits >> k & 1) != 0 ? d : -d, dot[j]);
					}
#endif
				}
				for (uint i = 0; i < K_TAIL; i++) {
					float v = from_half(row + p.k_tail_at + 2 * i);
					for (uint j = 0; j < QUERIES; j++) dot[j] = fma(query[j * LANES + DK - K_TAIL + i], v, dot[j]);
				}
#if K_RES == 2
				for (uint j = 0; j < QUERIES; j++) {
					if (j / HEADS < count_rows && j % HEADS < heads) dot[j] += shift[(first + j / HEADS) * p.heads + first_head + j % HEADS];
				}
#endif
			}
			for (uint j = 0; j < QUERIES; j++) {
				float s = LOWEST;
				if (j / HEADS < count_rows && j % HEADS < heads) {
					uint here = uint(rows[4 * (first + j / HEADS)]);
					bool sees = p.bidirectional != 0 ? position < hi : position <= here;
					if (sees && position >= lo && (p.window == 0 || position + p.window > here)) {
						s = (p.shifted != 0 ? dot[j] + shift[(first + j / HEADS) * p.heads + first_head + j % HEADS] : dot[j]) * p.scale;
						if (p.cap > 0.0f) s = p.cap * tanh(s / p.cap);
						s *= temper(p.sharpen, p.soften, p.window > 0 ? min(here + 1, p.window) : here + 1);
						s = s == s ? min(max(s, SMALLEST), -SMALLEST) : SMALLEST;
					}
				}
				score[j * CHUNK + cell] = s;
			}
		}
		barrier();
		for (uint j = simd_x; j < QUERIES; j += THREADS / 32) {
			float most = LOWEST, weights = 0.0f, seen = 0.0f, skipped = 0.0f;
			for (uint i = lane; i < CHUNK; i += 32) most = max(most, score[j * CHUNK + i]);
			most = simd_max(most);
			for (uint i = lane; i < CHUNK; i += 32) {
				float s = score[j * CHUNK + i], w = 0.0f;
				if (s != LOWEST) {
					w = exp(s - most);
					weights += w;
					seen += 1.0f;
					if (w < p.sparse_v) {
						w = 0.0f;
						skipped += 1.0f;
					}
				}
				score[j * CHUNK + i] = w;
			}
			weights = simd_sum(weights);
			seen = simd_sum(seen);
			skipped = simd_sum(skipped);
			if (lane != 0) continue;
			if (listed > 0) {
				count(counts + WEIGHED, uint(seen));
				count(counts + LEFT_OUT, uint(skipped));
			}
			float old = top[j];
			top[j] = max(old, most);
			fade[j] = total[j] > 0.0f ? exp(old - top[j]) : 0.0f;
			gain[j] = seen > 0.0f ? exp(most - top[j]) : 0.0f;
			total[j] = total[j] * fade[j] + weights * gain[j];
		}
		barrier();
		if (subset >= SUBSETS) continue;
		for (uint j = 0; j < QUERIES; j++) {
			UNROLL for (uint k = 0; k < 8; k++) sum[8 * j + k] *= fade[j];
		}
		for (uint cell = subset; cell < CHUNK; cell += SUBSETS) {
			bool used = false;
			for (uint j = 0; j < QUERIES; j++) used = used || score[j * CHUNK + cell] != 0.0f;
			if (!used) continue;
			read++;
			uint position = chunk * CHUNK + cell;
			float v[8];
#if EXACT
			uint pack;
			wide at = exact_cell(position, table + p.exact_table, exact_from, p.sinks, p.v_sink_bytes, seq, p.v_own, p.v_own_at, p.v_passing_at,
				p.v_exact_bytes, p.v_exact_pack, p.kv_heads, kv_head, pack);
			device const uchar *row = pack == PACKED ? V_ROW(uint(table[position / 64])) : v_exact + at;
			if (pack == INT8_CODES && V_TAIL > 0 && run * 8 >= DV - V_TAIL) {
				UNROLL for (uint k = 0; k < 8; k++) v[k] = from_half(row + p.v_exact_tail + 2 * (run * 8 - (DV - V_TAIL) + k));
			} else if (pack != PACKED) {
				exact_load8(pack, DV, row, run * 8, v);
			} else
#else
			device const uchar *row = V_ROW(uint(table[position / 64]));
#endif
			if (V_TAIL > 0 && run * 8 >= DV - V_TAIL) {
				UNROLL for (uint k = 0; k < 8; k++) v[k] = from_half(row + p.v_tail_at + 2 * (run * 8 - (DV - V_TAIL) + k));
			} else {
				form_load8(V_PACK, V_BITS, V_AFFINE, DV - V_TAIL, row, run * 8, p.v_elems, p.v_bytes, p.v_code_at, p.v_high_at,
					p.v_scale_at, p.v_min_at, p.v_cut, v_levels, v);
			}
			for (uint j = 0; j < QUERIES; j++) {
				float w = score[j * CHUNK + cell] * gain[j];
				UNROLL for (uint k = 0; k < 8; k++) sum[8 * j + k] = fma(w, v[k], sum[8 * j + k]);
			}
		}
	}
	if (run == 0 && listed > 0) count(counts + READ, read);
	for (uint j = 0; j < QUERIES; j++) { // add the sums of the subsets, always in the same order
		barrier();
		if (subset < SUBSETS) {
			UNROLL for (uint k = 0; k < 8; k++) score[(subset * RUNS + run) * 8 + k] = sum[8 * j + k];
		}
		barrier();
		if (j / HEADS >= count_rows || j % HEADS >= heads) continue;
		uint to = (((first + j / HEADS) * p.heads + first_head + j % HEADS) * p.parts + group_x) * (DV + 2);
		for (uint i = t; i < DV; i += THREADS) {
			float all = 0.0f;
			for (uint s = 0; s < SUBSETS; s++) all += score[s * RUNS * 8 + i];
			partial[to + 2 + i] = all;
		}
		if (t == 0) {
			partial[to] = top[j];
			partial[to + 1] = total[j];
		}
	}
}
