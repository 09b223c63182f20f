// kv_level normalises the channels of keys as y = (x - mean)·gain. If query is not 0, x has queries
// and y = x/gain. x and y are [rows][width], where width is a whole number of heads of dim values,
// and group consecutive heads share a KV head. mean and gain are [kv_heads][dim]. If the parameter
// each is not 0, every sequence has its own mean and gain, and each is the number of values of one
// sequence's mean.
KERNEL(kv_level)(IN(float, x, 0), IN(int, rows, 1), IN(float, mean, 2), IN(float, gain, 3), OUT(float, y, 4),
	PARAMS(kv_level_params, p, 5) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint at = i % p.width, channel = at / p.dim / p.group * p.dim + at % p.dim;
	if (p.each != 0) channel += uint(rows[4 * (i / p.width) + 3]) * p.each;
	y[i] = p.query != 0 ? x[i] / gain[channel] : (x[i] - mean[channel]) * gain[channel];
}
