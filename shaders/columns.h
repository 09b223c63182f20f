// columns takes columns [first, first+take) of every group of x's columns and
// repeats them: with tile the whole row of them repeats, else each group in place.
// A plain slice has times = 1, a plain repeat first = 0 and take = group.
KERNEL(columns)(IN(float, x, 0), OUT(float, y, 1), PARAMS(columns_params, p, 2) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint groups = p.width / p.group, taken = groups * p.take;
	uint row = i / (taken * p.times), column = i % (taken * p.times);
	uint g = p.tile != 0 ? column % taken / p.take : column / (p.take * p.times);
	y[i] = x[row * p.width + g * p.group + p.first + column % p.take];
}
