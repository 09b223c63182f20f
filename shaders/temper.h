// temper is what a logit over n cells is multiplied with, n rounded up to 256:
// 1 + sharpen·√(ln n), or soften/(soften + √(ln n / ln 2048)).
FUNC float temper(float sharpen, float soften, uint n) {
	if (sharpen == 0.0f && soften == 0.0f) return 1.0f;
	float l = log(float((n + 255) / 256 * 256));
	return sharpen != 0.0f ? 1.0f + sharpen * sqrt(l) : soften / (soften + sqrt(l / 7.6246f));
}
