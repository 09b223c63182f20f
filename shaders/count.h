// The counters of a layer. Each has 64 bits, and its number below is its index in 32-bit words.
//
// - WEIGHED: cells that Sparse V compared with its threshold, per query head
// - LEFT_OUT: cells that Sparse V skipped, among WEIGHED
// - READ: rows of V that were read
// - SATURATED: blocks of K whose scale is infinite or NaN as an f16, or values of K in f16 rows;
//   the counter of V is two words further
// - BROKEN: rows of one KV head that contain NaN or infinity
#define WEIGHED 0
#define LEFT_OUT 2
#define READ 4
#define SATURATED 6
#define BROKEN 10

// count adds n to a counter atomically, with carry into the upper word.
FUNC void count(device uint *number, uint n) {
	if (n == 0) return;
	if (atomic_add(number, n) + n < n) atomic_add(number + 1, 1u);
}
