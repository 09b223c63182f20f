// kv_level brings the channels of keys near each other, (x - mean)·gain, or with
// query divides those of queries by the gain. x and y are [rows][width], heads of dim
// values of which group in a row share a KV head; mean and gain are [kv heads][dim], of
// each sequence where each says how many those are.
KERNEL(kv_level)(IN(float, x, 0), IN(int, rows, 1), IN(float, mean, 2), IN(float, gain, 3), OUT(float, y, 4),
	PARAMS(kv_level_params, p, 5) INDICES) {
	uint i = group_x * THREADS + thread_x;
	if (i >= p.count) return;
	uint at = i % p.width, channel = at / p.dim / p.group * p.dim + at % p.dim;
	if (p.each != 0) channel += uint(rows[4 * (i / p.width) + 3]) * p.each;
	y[i] = p.query != 0 ? x[i] / gain[channel] : (x[i] - mean[channel]) * gain[channel];
}
