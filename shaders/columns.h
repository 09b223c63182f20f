// columns selects columns first to first+take of every group of x's columns, and repeats the
// selection times times. x has width columns per row. If tile is not 0, the selected columns of the
// whole row repeat as a unit (abab). Otherwise, each group repeats in place (aabb). A plain slice
// has times = 1. A plain repeat has first = 0 and take = group.
KERNEL(columns)(IN(float, x, 0), OUT(float, y, 1), PARAMS(columns_params, p, 2) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint groups = p.width / p.group, taken = groups * p.take;
	uint row = i / (taken * p.times), column = i % (taken * p.times);
	uint g = p.tile != 0 ? column % taken / p.take : column / (p.take * p.times);
	y[i] = x[row * p.width + g * p.group + p.first + column % p.take];
}
