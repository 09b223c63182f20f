//go:build !amd64 && !arm64

package kernel

func ropePairs(x, cos, sin []float32)      { ropePairsGeneric(x, cos, sin) }
func fromF16(dst []float32, x []uint16)    { fromF16Generic(dst, x) }
func toF16(dst []uint16, x []float32)      { toF16Generic(dst, x) }
func fromBF16(dst []float32, x []uint16)   { fromBF16Generic(dst, x) }
func toBF16(dst []uint16, x []float32)     { toBF16Generic(dst, x) }
func maximum(x []float32) float32          { return maxGeneric(x) }
func index(x []float32, f float32) int     { return indexGeneric(x, f) }
func quantize(dst []actBlock, x []float32) { quantizeGeneric(dst, x) }
