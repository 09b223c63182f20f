// stream_byte returns byte j of a bit stream of codes with width bits each, lowest bit first. Code
// c is the width bits of code[c] that begin at bit shift.
FUNC uint stream_byte(threadgroup const uchar *code, uint width, uint shift, uint j) {
	uint byte = 0, mask = (1u << width) - 1;
	for (uint c = 8 * j / width; c * width < 8 * j + 8; c++) {
		uint v = uint(code[c]) >> shift & mask;
		byte |= c * width >= 8 * j ? v << (c * width - 8 * j) : v >> (8 * j - c * width);
	}
	return byte & 255u;
}
