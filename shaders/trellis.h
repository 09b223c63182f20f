// The trellis encoder for one block of SIZE rotated values. The codes form a cyclic string of
// BITS bits per value. The 8 bits that begin at a value's own bits, its window, select its
// level. One SIMD group encodes a block with the Viterbi algorithm, from the last value to the
// first. A state is the low bits of a window, which are the high bits of the next window. Path
// metrics are integers of 16 bits, so every device finds the same codes.
// Source: engine/kv, Trellis.
#define STATES (256 >> BITS)
#define PER (STATES > 32 ? STATES / 32 : 1)   // number of states per lane
#define SPLIT (STATES < 32 ? 32 / STATES : 1) // number of lanes per state
#define TRIES ((1 << BITS) / SPLIT)           // number of windows that a lane tries per state
// NEAR is the number of values that the free run (see trellis_encode) covers on each side of the
// seam, where the two ends of the cyclic string meet.
#define NEAR (48 / BITS < SIZE / 2 ? 48 / BITS : SIZE / 2)
#define FAR 255 // maximum difference that a metric counts
#define REACH 254 // maximum target value
#define MOST 65535u // largest metric

// trellis_step extends every path by one value, whose target is z. k counts the steps of a run.
// cost holds the metrics, in two halves that alternate as input and output. from[k] records,
// for each state, the high bits of the window that led there. level holds this lane's levels in
// half steps.
FUNC void trellis_step(threadgroup uint *cost, threadgroup uchar *from, thread const int *level, int z, uint k, uint thread_index) {
	threadgroup const uint *old = cost + k % 2 * STATES;
	threadgroup uint *next = cost + (k + 1) % 2 * STATES;
	uint metric[PER], which[PER], least = MOST;
	UNROLL for (uint i = 0; i < PER; i++) {
		uint state = thread_index % STATES + 32 * i, high = thread_index / STATES * TRIES, best = 0xffffffffu;
		UNROLL for (uint x = 0; x < TRIES; x++) {
			int d = z - level[i * TRIES + x];
			uint far = uint(min(d < 0 ? -d : d, FAR));
			uint m = min(old[((high + x) * STATES + state) >> BITS] + far * far, MOST);
			best = min(best, m << 8 | (high + x)); // in a tie, the lowest window wins
		}
		if (SPLIT > 1) best = min(best, simd_shuffle_xor(best, 16u));
		metric[i] = best >> 8;
		which[i] = best & 255u;
		least = min(least, metric[i]);
	}
	least = uint(-simd_max(-float(least)));
	UNROLL for (uint i = 0; i < PER; i++) {
		if (thread_index >= STATES) continue;
		uint state = thread_index + 32 * i;
		next[state] = metric[i] - (k % 4 == 3 ? least : 0u);
		from[k * STATES + state] = uchar(which[i]);
	}
	barrier();
}

// trellis_back returns the previous state, where x is the high bits of the window that led to
// state.
FUNC uint trellis_back(uint state, uint x) { return (x * STATES | state) >> BITS; }

// trellis_encode writes the window of each target value of z to w. A free run over the values
// on both sides of the seam decides in which state the two ends of the string meet. A second
// run over all values begins and ends in that state.
FUNC void trellis_encode(threadgroup uchar *w, threadgroup const int *z, threadgroup uint *cost, threadgroup uchar *from,
	device const float *levels, uint thread_index) {
	int level[PER * TRIES];
	UNROLL for (uint i = 0; i < PER * TRIES; i++) {
		uint x = i % TRIES + thread_index / STATES * TRIES;
		level[i] = 2 * int(levels[x * STATES + thread_index % STATES + i / TRIES * 32]);
	}
	for (uint i = thread_index; i < STATES; i += THREADS) cost[i] = 0;
	barrier(); // this barrier also makes z visible to all lanes
	for (uint k = 0; k < 2 * NEAR; k++) trellis_step(cost, from, level, z[k < NEAR ? NEAR - 1 - k : SIZE - 1 - (k - NEAR)], k, thread_index);
	uint seam = 0;
	// after an even number of steps, the metrics are in the first half of cost
	for (uint i = 1; i < STATES; i++) {
		if (cost[i] < cost[seam]) seam = i;
	}
	for (uint k = 2 * NEAR; k > NEAR; k--) seam = trellis_back(seam, from[(k - 1) * STATES + seam]);
	barrier();
	for (uint i = thread_index; i < STATES; i += THREADS) cost[i] = i == seam ? 0 : MOST;
	barrier();
	for (uint k = 0; k < SIZE; k++) trellis_step(cost, from, level, z[SIZE - 1 - k], k, thread_index);
	if (thread_index == 0) {
		for (uint i = 0; i < SIZE; i++) {
			uint x = from[(SIZE - 1 - i) * STATES + seam];
			w[i] = uchar(x * STATES | seam);
			seam = trellis_back(seam, x);
		}
	}
	barrier();
}

// trellis_block encodes the rotated values v and writes the block. The targets z are the values at
// unit variance, in half steps of the levels. The scale makes the dot product of the decoded block
// and v equal to |v|². Values are first multiplied by a power of two, near, that brings the largest
// one close to 1, so that squares neither overflow nor underflow. The first thread returns 1 if the
// block is saturated, because its scale does not fit in an f16 or a value is NaN.
FUNC uint trellis_block(device uchar *block, threadgroup const float *v, threadgroup int *z, threadgroup uchar *w, threadgroup uint *cost,
	threadgroup uchar *from, device const float *levels, float unit, uint code_at, uint scale_at, uint thread_index) {
	float most = 0.0f, broken = 0.0f;
	for (uint i = thread_index; i < SIZE; i += THREADS) {
		float a = fabs(v[i]);
		most = max(most, a == a ? a : 0.0f);
		if (a != a) broken = 1.0f;
	}
	most = simd_max(most);
	broken = simd_max(broken);
	bool sound = broken == 0.0f && most > 0.0f && most <= -LOWEST;
	float near = as_float(uint(max(254 - int(as_uint(most) >> 23), 1)) << 23);
	twofold energy = two(0.0f, 0.0f);
	for (uint i = thread_index; i < SIZE; i += THREADS) {
		twofold a = two(sound ? v[i] * near : 0.0f, 0.0f);
		energy = two_sum(energy, two_product(a, a));
	}
	energy = two_all(energy);
	twofold inverse = two(0.0f, 0.0f);
	if (sound) {
		twofold mean = two(energy.hi / float(SIZE), energy.lo / float(SIZE));
		inverse = two_ratio(two(2.0f, 0.0f), two_product(two_root(mean), two(unit, 0.0f)));
	}
	for (uint i = thread_index; i < SIZE; i += THREADS) {
		twofold a = two_product(inverse, two(sound ? v[i] * near : 0.0f, 0.0f));
		z[i] = a.hi > float(REACH) ? REACH : a.hi < float(-REACH) ? -REACH : two_round(a);
	}
	trellis_encode(w, z, cost, from, levels, thread_index);
	twofold dot = two(0.0f, 0.0f);
	for (uint i = thread_index; i < SIZE; i += THREADS) {
		dot = two_sum(dot, two_product(two(sound ? v[i] * near : 0.0f, 0.0f), two(levels[w[i]], 0.0f)));
	}
	dot = two_all(dot);
	float scale = 0.0f;
	if (sound && dot.hi > 0.0f) scale = two_ratio(energy, two_product(dot, two(unit, 0.0f))).hi / near;
	if (broken == 0.0f && most > -LOWEST) scale = most; // a value is infinite, and so is the scale
	if (thread_index == 0) {
		uint h = finite_half(scale);
		block[scale_at] = uchar(h);
		block[scale_at + 1] = uchar(h >> 8);
	}
	for (uint j = thread_index; j < SIZE / 8 * BITS; j += THREADS) block[code_at + j] = uchar(stream_byte(w, BITS, 0, j));
	return thread_index == 0 && (broken != 0.0f || lost_half(scale) != 0) ? 1 : 0;
}
