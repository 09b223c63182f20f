// rope_angle returns position·freq minus a whole number of quarter turns, and stores that
// number modulo 4 in quarter. Angles are in radians. The product is kept exactly in two floats
// and π/2 is split into three floats (Cody-Waite reduction), so the result has a float's
// precision at any position below 2²⁴.
FUNC float rope_angle(float position, float freq, thread uint &quarter) {
	float hi = position * freq, lo = fma(position, freq, -hi);
	float n = floor(hi * 0.6366197723675814f + 0.5f);
	quarter = uint(int(n)) % 4u;
	float v = fma(n, -1.5707963705062866f, hi);
	v = fma(n, 4.371138828673793e-8f, v);
	v = fma(n, 1.7151245100058819e-15f, v);
	return v + lo;
}

// rope_sin_cos computes the sine and cosine of v + quarter·π/2, for |v| ≤ π/4. It evaluates
// their Taylor series, to about 1 ulp.
FUNC void rope_sin_cos(float v, uint quarter, thread float &sine, thread float &cosine) {
	float v2 = v * v;
	float s = v * (1.0f + v2 * (-1.6666667e-1f + v2 * (8.3333333e-3f + v2 * (-1.9841270e-4f + v2 * 2.7557319e-6f))));
	float c = 1.0f + v2 * (-0.5f + v2 * (4.1666667e-2f + v2 * (-1.3888889e-3f + v2 * (2.4801587e-5f - v2 * 2.7557319e-7f))));
	float swap_s = quarter % 2 == 0 ? s : c, swap_c = quarter % 2 == 0 ? c : s;
	sine = quarter < 2 ? swap_s : -swap_s;
	cosine = quarter == 0 || quarter == 3 ? swap_c : -swap_c;
}
