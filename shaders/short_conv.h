// short_conv is a causal depthwise convolution along the rows of each span, with one filter of taps
// values per column, followed by the function func. x and y are [rows][width] and w is
// [width][taps]. The state is [taps-1][width]. It holds the rows before the span, oldest first, and
// the kernel updates it. At the start of a sequence, these rows are zero.
//
// spans has four ints per span: first row, number of rows, 1 if the sequence begins here, and the
// state slot. A thread computes one column. In the grid, y is the span.
KERNEL(short_conv)(IN(float, x, 0), IN(float, w, 1), IN(float, bias, 2), IN(int, spans, 3), INOUT(float, state, 4),
	OUT(float, y, 5), PARAMS(short_conv_params, p, 6) INDICES) {
	uint column = group_x * THREADS + thread_x;
	if (column >= p.width) return;
	int first = spans[4 * group_y], rows = spans[4 * group_y + 1];
	bool fresh = spans[4 * group_y + 2] != 0;
	device float *past = state + uint(spans[4 * group_y + 3]) * p.slot + p.at + column;
	int before = int(p.taps) - 1;
	for (int r = 0; r < rows; r++) {
		float sum = x[uint(first + r) * p.width + column] * w[column * p.taps + uint(before)];
		for (int i = 0; i < before; i++) {
			int at = r - before + i;
			float v = at >= 0 ? x[uint(first + at) * p.width + column] : fresh ? 0.0f : past[uint(before + at) * p.width];
			sum += v * w[column * p.taps + uint(i)];
		}
		if (p.bias != 0) sum += bias[column];
		y[uint(first + r) * p.width + column] = apply_func(p.func, sum);
	}
	for (int i = 0; i < before; i++) {
		int at = rows - before + i;
		past[uint(i) * p.width] = at >= 0 ? x[uint(first + at) * p.width + column] : fresh ? 0.0f : past[uint(before + at) * p.width];
	}
}
