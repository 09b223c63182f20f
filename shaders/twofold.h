// A twofold is a number stored as the sum of two floats (double-float arithmetic). The second
// is at most half an ulp of the first, so the pair has at least 48 significant bits. It
// replaces double precision, which Metal lacks.
struct twofold {
	float hi, lo;
};

// two returns a + b exactly, if |a| is at least |b|.
FUNC twofold two(float a, float b) {
	twofold r;
	r.hi = a + b;
	r.lo = b - (r.hi - a);
	return r;
}

FUNC twofold two_sum(twofold a, twofold b) {
	float s = a.hi + b.hi, c = s - a.hi, lost = (a.hi - (s - c)) + (b.hi - c);
	return two(s, lost + (a.lo + b.lo));
}

FUNC twofold two_product(twofold a, twofold b) {
	float m = a.hi * b.hi, lost = fma(a.hi, b.hi, -m);
	return two(m, lost + (a.hi * b.lo + a.lo * b.hi));
}

FUNC twofold two_ratio(twofold a, twofold b) {
	float q = a.hi / b.hi, m = q * b.hi;
	float rest = (((a.hi - m) - fma(q, b.hi, -m)) + a.lo) - q * b.lo;
	return two(q, rest / b.hi);
}

FUNC twofold two_root(twofold a) {
	float r = sqrt(a.hi), m = r * r, rest = ((a.hi - m) - fma(r, r, -m)) + a.lo;
	return two(r, rest / (2.0f * r));
}

// two_round rounds to the nearest integer, ties to even. |a| must be less than 2²⁰.
FUNC int two_round(twofold a) {
	float whole = floor(a.hi), rest = (a.hi - whole) + a.lo;
	int n = int(whole);
	return rest > 0.5f || (rest == 0.5f && (n & 1) != 0) ? n + 1 : n;
}

// two_all returns the sum of a over the lanes of a SIMD group to every lane.
FUNC twofold two_all(twofold a) {
	for (uint m = 16; m > 0; m /= 2) {
		twofold b;
		b.hi = simd_shuffle_xor(a.hi, m);
		b.lo = simd_shuffle_xor(a.lo, m);
		a = two_sum(a, b);
	}
	return a;
}
