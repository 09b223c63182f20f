// top finds the p.count largest values of each stretch of STRETCH values. A row has p.width values,
// and a threadgroup handles one stretch of one row. Results are in descending order. In a tie, the
// lower number comes first. NaN is larger than any number.
//
// y is [rows][stretches][count] pairs of words. A pair has the bits of the value, and its number,
// which is its index in the row. By default, x has plain values. If p.listed is not 0, it has the
// pairs of an earlier launch. If a stretch has fewer values than count, the other pairs have the
// number NOBODY.
#define RUN 8 // number of values per thread
#define STRETCH (THREADS * RUN)
#define NOBODY 0xffffffffu // number of an empty pair, whose value is minus infinity

// leads reports whether value a with number i precedes value b with number j.
FUNC bool leads(float a, uint i, float b, uint j) {
	bool nan = a != a, other = b != b;
	if (nan != other) return nan;
	return nan || a == b ? i < j : a > b;
}

KERNEL(top)(IN(uint, x, 0), OUT(uint, y, 1), PARAMS(top_params, p, 2) INDICES) {
	SHARED(float, best, THREADS / 32); // the best value of each SIMD group
	SHARED(uint, whose, THREADS / 32);
	float v[RUN];
	uint number[RUN];
	uint taken = 0; // bit k is set if value k of this thread has been output
	for (uint k = 0; k < RUN; k++) {
		uint i = group_x * STRETCH + k * THREADS + thread_x, from = group_y * p.width + i;
		v[k] = as_float(0xff800000u);
		number[k] = NOBODY;
		if (i < p.width) {
			v[k] = as_float(p.listed != 0 ? x[2 * from] : x[from]);
			number[k] = p.listed != 0 ? x[2 * from + 1] : i;
		}
	}
	uint stretches = (p.width + STRETCH - 1) / STRETCH, to = 2 * (group_y * stretches + group_x) * p.count;
	for (uint n = 0; n < p.count; n++) {
		float top = as_float(0xff800000u);
		uint at = NOBODY;
		for (uint k = 0; k < RUN; k++) {
			if ((taken >> k & 1) == 0 && leads(v[k], number[k], top, at)) {
				top = v[k];
				at = number[k];
			}
		}
		for (uint m = 16; m > 0; m /= 2) {
			float other = simd_shuffle_xor(top, m);
			uint from = simd_shuffle_xor(at, m);
			if (leads(other, from, top, at)) {
				top = other;
				at = from;
			}
		}
		barrier();
		if (lane == 0) {
			best[simd_x] = top;
			whose[simd_x] = at;
		}
		barrier();
		for (uint i = 0; i < THREADS / 32; i++) {
			if (leads(best[i], whose[i], top, at)) {
				top = best[i];
				at = whose[i];
			}
		}
		for (uint k = 0; k < RUN; k++) taken |= number[k] == at ? 1u << k : 0u;
		if (thread_x == 0) {
			y[to + 2 * n] = as_uint(top);
			y[to + 2 * n + 1] = at;
		}
	}
}
