// How the values of a cache type lie in a row: PACK is F32_VALUES, F16_VALUES,
// BF16_VALUES for plain floats, else the way of the codes; the numbers are those
// of shaders.Pack.
#define F32_VALUES 0
#define F16_VALUES 1
#define BF16_VALUES 2
#define INT8_CODES 3
#define STREAM_CODES 4
#define PLANE_CODES 5
#define HALF_CODES 6
#define CYCLIC_CODES 7

// The table of a form: levels and boundaries, 32 each, then the vectors of the
// rotation and of the residual, SIZE each (in a head that is cut, as many as the
// largest block has), then what else the form needs.
#define BOUNDS 32
#define PRE 64
