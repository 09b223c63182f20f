// Package kernel holds the arithmetic of the CPU backend as pure functions. They
// multiply repacked weight matrices by vectors and matrices, and compute the
// element-wise ops between them. The functions that compute do not start goroutines
// or allocate memory. The caller splits the work by panels of 16 output rows.
//
//	w := &kernel.Packed{Type: t, Rows: rows, Cols: cols, Data: buf}
//	kernel.Pack(w.Data, t, rows, cols, src, 0, w.Panels())
//	a := kernel.NewActs(maxRows, cols)
//	a.Quantize(0, x)
//	kernel.MatVec(y, w, a, 0, 0, w.Panels())
//
// The processor's own prefetching does not reach the speed of the memory. A thread
// should therefore process neighbouring runs of panels one after another and name the
// next run ([MatMulAhead]). While it waits at a barrier, it can prefetch its next matrix
// ([Prefetch]). For several rows, runs should have an even number of panels.
//
// # Tiers
//
// Every function has variants in plain Go and in assembly. On amd64 they are for
// AVX-512 with VNNI and VBMI, and for AVX2 with FMA and F16C. On arm64 they are for
// NEON with and without dot products, which only the matrix kernels over codes use.
// [Active] returns the tier in use. The environment variable GODWIT_CPU_TIER (generic,
// avx2, avx512, neon, dotprod) sets it. All variants do the same operations in the
// same order, with fused multiply-adds in the same places, so they give the same
// bits. The arm64 kernels were tested under qemu. Their speed was never measured.
//
// # Panels
//
// A panel is 16 rows, interleaved block by block. It takes exactly as many bytes as
// 16 rows in the file's format, except for the types of form_grid.go, whose
// codebooks become four bits per value. A block begins with the two-byte scales of
// the 16 rows. The byte-sized scales follow (byte 0 of all rows, byte 1 of all rows,
// and so on, in the order of the file), and then one group for every 32 columns:
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
// Activations are 16-bit codes in blocks of 32 with a float32 scale. The integer dot
// product of a row and a block is exact. The float part runs over the blocks in order:
// acc = fma(float(dot)·d, da, acc), and if the format has a minimum, acc = fma(m, s, acc).
// If every 16 columns have their own scale, the two halves are first scaled and added,
// minima included, and then multiplied by da. The result for a row of activations
// therefore has the same bits alone and in any batch, for any split over threads, and in
// every tier.
package kernel
