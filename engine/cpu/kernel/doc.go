// Package kernel holds the arithmetic of the CPU backend as pure functions:
// matrix times vector and matrix times matrix over repacked weights, and the
// element-wise ops between them. Nothing here starts goroutines or allocates;
// the caller splits the work by panels of 16 output rows.
//
//	w := &kernel.Packed{Type: t, Rows: rows, Cols: cols, Data: buf}
//	kernel.Pack(w.Data, t, rows, cols, src, 0, w.Panels())
//	a := kernel.NewActs(maxRows, cols)
//	a.Quantize(0, x)
//	kernel.MatVec(y, w, a, 0, 0, w.Panels())
//
// Weights come from memory faster than a processor's own prefetching brings
// them: a thread should take neighbouring runs of panels one after the other and say
// so ([MatMulAhead]), and may use the time at a barrier for its next matrix
// ([Prefetch]). Runs of an even number of panels are best for several rows.
//
// # Tiers
//
// Every function has variants in plain Go and in assembly: on amd64 for AVX-512
// with VNNI and VBMI and for AVX2 with FMA and F16C, on arm64 for NEON with and
// without dot products, which only the matrix kernels over codes need. [Active]
// names the tier in use, the environment variable GODWIT_CPU_TIER (generic, avx2,
// avx512, neon, dotprod) forces one. All variants do the same operations in the
// same order, with fused multiply-adds in the same places, so they give the same
// bits. The arm64 kernels were run under qemu; their speed was never measured.
//
// # Panels
//
// A panel is 16 rows, interleaved block by block; it takes exactly the bytes
// of 16 rows of the file's format, except for the types of form_grid.go, whose
// books of points become four bits a value. In a block the two-byte scales of the 16
// rows come first, then the byte-sized scales (byte 0 of the 16 rows, byte 1
// of the 16 rows, and so on, in the order of the file), then one group for
// each 32 columns:
//
//	4-bit codes   4 × 64 bytes. Byte 4r+i of chunk j: low nibble is column
//	              4j+i of row r, high nibble is column 16+4j+i.
//	5th bit       64 bytes ahead of them. Bit k of byte 4r+i is column 4k+i.
//	2-bit codes   2 × 64 bytes. Bits 2k, 2k+1 of byte 4r+i of chunk j are
//	              column 16j+4k+i. Q3_K has its third bit after them.
//	6-bit codes   2 × 3 × 64 bytes, 16 columns each. The low six bits of byte
//	              4r+i of chunk k are column 4k+i; the top bits of the three
//	              chunks are column 12+i, the first chunk's uppermost.
//	8-bit codes   8 × 64 bytes. Byte 4r+i of chunk j is column 4j+i, plus 128.
//
// F32, F16 and BF16 panels hold 16 values, one of each row, for each column.
// Rows beyond the matrix are zero.
//
// # Arithmetic
//
// Activations are codes of 16 bits in blocks of 32 with a float32 scale. For each row and
// block the integer dot product is exact; the float part runs over the blocks
// in order, acc = fma(float(dot)·d, da, acc), then acc = fma(m, s, acc) where
// the format has a minimum. Where 16 columns have scales of their own, the two halves
// are scaled and added first, minima included, and meet da last. So the result for a row of activations is the same bits alone and in
// any batch, for any split over threads, and in every tier.
package kernel
