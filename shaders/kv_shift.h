// kv_shift computes the product of each query with the mean of the keys. y is [rows][heads]. Scores
// lack this term if keys are stored without their mean. x is [rows][heads][dim] and mean is as in
// kv_level. scale, sharpen and soften convert the product to a logit, which can be compared with
// sink logits. With a scale of 1 and no temperature, it stays a raw score. One SIMD group computes
// one value.
KERNEL(kv_shift)(IN(float, x, 0), IN(int, rows, 1), IN(float, mean, 2), OUT(float, y, 3), PARAMS(kv_shift_params, p, 4) INDICES) {
	uint head = group_y * p.heads + group_x, channel = group_x / p.group * p.dim, seen = uint(rows[4 * group_y]) + 1;
	if (p.each != 0) channel += uint(rows[4 * group_y + 3]) * p.each;
	float sum = 0.0f;
	for (uint i = lane; i < p.dim; i += 32) sum = fma(x[head * p.dim + i], mean[channel + i], sum);
	sum = simd_sum(sum);
	if (p.window > 0) seen = min(seen, p.window);
	if (lane == 0) y[head] = sum * p.scale * temper(p.sharpen, p.soften, seen);
}
