// cut_block is the byte at which the block of value i begins in a head of cut values
// that is cut into blocks of 256, 128, 64 and 32, the largest first, the last one
// padded. at is the value's place among the n of the block, code_at what a block has
// before its codes.
FUNC uint cut_block(uint cut, uint code_at, uint bits, uint i, thread uint &at, thread uint &n) {
	n = 256;
	at = i % 256;
	if (i < cut / 256 * 256) return i / 256 * (code_at + bits * 32);
	uint byte = cut / 256 * (code_at + bits * 32);
	at = i - cut / 256 * 256;
	for (n = 128; n >= 32; n /= 2) {
		if ((cut & n) == 0) continue;
		if (at < n) return byte;
		at -= n;
		byte += code_at + bits * n / 8;
	}
	n = 32;
	return byte;
}
