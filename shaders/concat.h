// concat joins the rows of a and b group by group: group_a columns of a, then group_b columns
// of b. An operand with only one group per row is repeated for every group of the other.
KERNEL(concat)(IN(float, a, 0), IN(float, b, 1), OUT(float, y, 2), PARAMS(concat_params, p, 3) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint na = p.width_a / p.group_a, nb = p.width_b / p.group_b, size = p.group_a + p.group_b;
	uint row = i / (max(na, nb) * size), column = i % (max(na, nb) * size);
	uint g = column / size, at = column % size;
	if (at < p.group_a) y[i] = a[row * p.width_a + g % na * p.group_a + at];
	else y[i] = b[row * p.width_b + g % nb * p.group_b + at - p.group_a];
}
