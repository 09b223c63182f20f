// Codes of a key that do not depend on its position. kv_encode undoes the RoPE of each pair of
// values (k, k + SIZE/2) and stores the pair as a radius code of 3 bits and an angle code of 4
// bits.
//
// table has, in order: 8 radius levels, 8 boundaries between them, the cosines and then the sines
// of the centres of the 16 angle codes, and the RoPE frequencies of the pairs. Each frequency is
// two floats. All high parts come first. Source: engine/kv, Polar.

// polar_search finds the codes for the pair (u, v). Among the codes within two steps of plain
// rounding, it maximises the dot product minus lambda times the squared error. sigma is the scale
// of the key.
FUNC void polar_search(device const float *table, float u, float v, float sigma, float lambda, thread uint &radius, thread uint &angle) {
	uint r0 = 0;
	float relative = sqrt(u * u + v * v) * (1.0f / sigma);
	while (r0 < 7 && !(table[8 + r0] > relative)) r0++;
	float full = (atan2(v, u) + 3.1415927410125732f) * 0.15915493667125702f;
	uint a0 = uint(min(max(to_int(floor(full * 16.0f)), 0), 15));
	float best = LOWEST;
	radius = r0;
	angle = a0;
	for (uint r = r0 < 2 ? 0 : r0 - 2; r <= min(r0 + 2, 7u); r++) {
		for (uint step = 0; step < 5; step++) {
			uint a = (a0 + step + 14) % 16;
			float ru = sigma * table[r] * table[16 + a], rv = sigma * table[r] * table[32 + a];
			float dot = ru * u + rv * v, du = ru - u, dv = rv - v;
			float s = dot - lambda * (du * du + dv * dv);
			if (s > best) {
				best = s;
				radius = r;
				angle = a;
			}
		}
	}
}

// polar_encode writes the codes of all pairs of the key v to radius and angle, and the key's
// root mean square, or least if that is larger, to sigma[0]. position is the token's position.
FUNC void polar_encode(threadgroup const float *v, device const float *table, float position, float least, float lambda,
	threadgroup float *sigma, threadgroup uchar *radius, threadgroup uchar *angle, uint thread_index) {
	if (thread_index == 0) {
		float sum = 0.0f;
		for (uint k = 0; k < SIZE / 2; k++) sum += v[k] * v[k] + v[k + SIZE / 2] * v[k + SIZE / 2];
		sigma[0] = sqrt(sum / float(SIZE));
		if (sigma[0] < least) sigma[0] = least;
	}
	barrier();
	for (uint k = thread_index; k < SIZE / 2; k += THREADS) {
		uint quarter, r = 0, a = 0;
		float sine, cosine;
		float reduced = rope_angle(position, table[48 + k], quarter) + position * table[48 + SIZE / 2 + k];
		rope_sin_cos(reduced, quarter, sine, cosine);
		float x = v[k], y = v[k + SIZE / 2];
		if (sigma[0] == sigma[0]) polar_search(table, cosine * x + sine * y, cosine * y - sine * x, sigma[0], lambda, r, a);
		radius[k] = uchar(r);
		angle[k] = uchar(a);
	}
	barrier();
}

// polar_pack writes one code per pair, of width bits each, as a bit stream.
FUNC void polar_pack(threadgroup uchar *to, threadgroup const uchar *code, uint width, uint thread_index) {
	for (uint j = thread_index; j < SIZE / 2 * width / 8; j += THREADS) to[j] = uchar(stream_byte(code, width, 0, j));
}
