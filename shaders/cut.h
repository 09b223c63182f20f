// cut_block finds the trellis block that contains value i of a head, and returns the block's
// byte offset in the head. The head has cut values. They are divided into as many blocks of 256
// values as fit, then at most one each of 128, 64 and 32 values. The last block is padded to
// 32. n is the number of values in the block and at is the index of value i in it. code_at is
// the number of bytes before a block's codes, and bits is the number of bits per code.
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
