// route chooses p.used of p.experts for each row. y is [rows][2·used]. A row of y has the numbers
// of the chosen experts, followed by their weights. A threadgroup is one SIMD group and handles one
// row. Lane i handles experts i, i+32 and so on. EXPERTS is the maximum number of experts.
//
// gating selects how logits become weights: 0 is a softmax over all experts, 1 is a sigmoid of
// each, 2 is a softmax over the chosen experts. bias affects only the choice and not the weights.
// If groups is not 0, experts are in that many groups, and only the used_groups groups with the
// largest sum of their two best scores take part. In a tie, the lowest number wins. If normalise is
// not 0, the weights are divided by their sum. They are then multiplied by scale. Sources: arXiv
// 2401.06066, 2412.19437.

#define EXCLUDED as_float(0xff800000u) // minus infinity

// better reports whether expert i with score a is preferred to expert j with score b.
FUNC bool better(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

// first_of returns the index of the best of n scores to all lanes.
FUNC uint first_of(threadgroup const float *score, uint n, uint lane_index) {
	float best = EXCLUDED;
	uint at = n - 1;
	for (uint i = lane_index; i < n; i += 32) {
		if (i == lane_index || better(score[i], i, best, at)) {
			best = score[i];
			at = i;
		}
	}
	for (uint m = 16; m > 0; m /= 2) {
		float other = simd_shuffle_xor(best, m);
		uint from = simd_shuffle_xor(at, m);
		if (better(other, from, best, at)) {
			best = other;
			at = from;
		}
	}
	return at;
}

KERNEL(route)(IN(float, logits, 0), IN(float, bias, 1), OUT(float, y, 2), PARAMS(route_params, p, 3) INDICES) {
	SHARED(float, prob, EXPERTS);
	SHARED(float, score, EXPERTS);
	SHARED(float, sums, EXPERTS); // sum of the two best scores of each group
	SHARED(float, weight, EXPERTS);
	device const float *x = logits + group_x * p.experts;
	float most = LOWEST;
	for (uint i = lane; i < p.experts; i += 32) most = max(most, x[i]);
	most = simd_max(most);
	float total = 0.0f;
	for (uint i = lane; i < p.experts; i += 32) {
		float v = x[i];
		if (p.gating == 0) v = exp(v - most);
		if (p.gating == 1) v = 1.0f / (1.0f + exp(-v));
		prob[i] = v;
		total += v;
	}
	total = simd_sum(total);
	for (uint i = lane; i < p.experts; i += 32) {
		if (p.gating == 0) prob[i] /= total;
		score[i] = p.bias != 0 ? prob[i] + bias[i] : prob[i];
	}
	barrier();
	if (p.groups > 0) {
		uint n = p.experts / p.groups;
		for (uint g = lane; g < p.groups; g += 32) {
			float a = EXCLUDED, b = EXCLUDED;
			for (uint i = 0; i < n; i++) {
				float v = score[g * n + i];
				if (v > a) {
					b = a;
					a = v;
				} else if (v > b) {
					b = v;
				}
			}
			sums[g] = n == 1 ? a : a + b;
		}
		barrier();
		// keep a group if fewer than used_groups groups are better
		for (uint g = lane; g < p.groups; g += 32) {
			uint before = 0;
			for (uint j = 0; j < p.groups; j++) before += better(sums[j], j, sums[g], g) ? 1 : 0;
			if (before >= p.used_groups) {
				for (uint i = 0; i < n; i++) score[g * n + i] = EXCLUDED;
			}
		}
		barrier();
	}
	for (uint i = 0; i < p.used; i++) {
		// all lanes get the same result, so they do not diverge
		uint at = first_of(score, p.experts, lane);
		if (lane == 0) {
			y[group_x * 2 * p.used + i] = float(at);
			weight[i] = prob[at];
			score[at] = EXCLUDED;
		}
		barrier();
	}
	float top = LOWEST;
	for (uint i = lane; i < p.used; i += 32) top = max(top, weight[i]);
	top = simd_max(top);
	float sum = 0.0f;
	for (uint i = lane; i < p.used; i += 32) {
		if (p.gating == 2) weight[i] = exp(weight[i] - top);
		sum += weight[i];
	}
	sum = simd_sum(sum);
	float by = p.scale;
	if (p.gating == 2) {
		by /= sum;
		sum = 1.0f;
	}
	if (p.normalise != 0) by /= max(sum, 6.103515625e-5f); // 2^-14, the smallest normal f16
	for (uint i = lane; i < p.used; i += 32) y[group_x * 2 * p.used + p.used + i] = weight[i] * by;
}
