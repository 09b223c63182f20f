// The element-wise functions. The numbers of apply_func are the numbers of graph.Func.
FUNC float sigmoid_of(float v) { return 1.0f / (1.0f + exp(-v)); }

// erf_of computes the error function with an absolute error of about 1 ulp of 1. It uses a
// power series for |v| < 1.5 and a continued fraction for larger arguments.
// Source: Abramowitz and Stegun 7.1.5 and 7.1.14.
FUNC float erf_of(float v) {
	float a = fabs(v);
	if (a < 1.5f) {
		float term = v, sum = v;
		for (int n = 1; n < 18; n++) {
			term = -term * v * v / float(n);
			sum += term / float(2 * n + 1);
		}
		return 1.1283791670955126f * sum;
	}
	float f = a; // continued fraction of erfc, evaluated from its last term to its first
	for (int n = 24; n > 0; n--) f = a + 0.5f * float(n) / f;
	float tail = exp(-a * a) * 0.5641895835477563f / f;
	return v < 0 ? tail - 1.0f : 1.0f - tail;
}

FUNC float apply_func(uint func, float v) {
	switch (func) {
	case 1: return v * sigmoid_of(v);
	case 2: return 0.5f * v * (1.0f + tanh(0.7978845608028654f * (v + 0.044715f * v * v * v)));
	case 3: return 0.5f * v * (1.0f + erf_of(v * 0.7071067811865476f));
	case 4: return max(v, 0.0f);
	case 5: return max(v, 0.0f) * max(v, 0.0f);
	case 6: return sigmoid_of(v);
	case 7: return max(v, 0.0f) + log(1.0f + exp(-fabs(v)));
	case 8: return tanh(v);
	}
	return v;
}
