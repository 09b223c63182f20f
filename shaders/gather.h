// gather copies the rows of x whose numbers are in index. x and y have width columns. count is the
// number of elements of y.
KERNEL(gather)(IN(float, x, 0), IN(int, index, 1), OUT(float, y, 2), PARAMS(gather_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	y[i] = x[uint(index[i / p.width]) * p.width + i % p.width];
}
