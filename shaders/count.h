// The counters of a layer, 64 bits each, by their place in 32-bit words: positions that
// Sparse V weighed, those that it left out, rows of V that were read, blocks of K and
// of V whose scale f16 does not hold, and rows of a KV head that are no numbers.
#define WEIGHED 0
#define LEFT_OUT 2
#define READ 4
#define SATURATED 6
#define BROKEN 10

// count adds n to a counter.
FUNC void count(device uint *number, uint n) {
	if (n == 0) return;
	if (atomic_add(number, n) + n < n) atomic_add(number + 1, 1u);
}
