// The packings of a row, which are the ways to store the values of a cache type. The first three
// are plain floats and the others are codes. The numbers are the same as in shaders.Pack.
#define F32_VALUES 0
#define F16_VALUES 1
#define BF16_VALUES 2
#define INT8_CODES 3
#define STREAM_CODES 4
#define PLANE_CODES 5
#define HALF_CODES 6
#define CYCLIC_CODES 7

// The layout of the argument form, the table of a cache type, in floats:
//
// - 0: the codebook's levels, up to 32
// - BOUNDS: the boundaries between levels, up to 32
// - PRE: four vectors of equal length. They are the rotation's signs pre, mid and post, and the
//   residual's signs. The length is SIZE. If the head has several block sizes, it is the largest.
// - after them: the polar table (polar.h), or the levels of a trellis
#define BOUNDS 32
#define PRE 64
