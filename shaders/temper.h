// temper returns the attention temperature, which is a factor for the logits of a query that sees n
// cells. It is 1 + sharpen·√(ln n) if sharpen is not 0, and otherwise soften/(soften + √(ln n / ln
// 2048)). n is rounded up to a multiple of 256, so that the factor does not depend on how batches
// are split. If both parameters are 0, the factor is 1. Source: engine/kv, Temper.
FUNC float temper(float sharpen, float soften, uint n) {
	if (sharpen == 0.0f && soften == 0.0f) return 1.0f;
	float l = log(float((n + 255) / 256 * 256));
	return sharpen != 0.0f ? 1.0f + sharpen * sqrt(l) : soften / (soften + sqrt(l / 7.6246f));
}
