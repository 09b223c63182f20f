package kernel

func quantize(dst []actBlock, x []float32) { quantizeGeneric(dst, x) }

func silus(dst, x []float32)                         { silusGeneric(dst, x) }
func gelus(dst, x []float32)                         { gelusGeneric(dst, x) }
func geluErfs(dst, x []float32)                      { geluErfsGeneric(dst, x) }
func geluQuicks(dst, x []float32)                    { geluQuicksGeneric(dst, x) }
func relus(dst, x []float32)                         { relusGeneric(dst, x) }
func relu2s(dst, x []float32)                        { relu2sGeneric(dst, x) }
func sigmoids(dst, x []float32)                      { sigmoidsGeneric(dst, x) }
func softpluses(dst, x []float32)                    { softplusesGeneric(dst, x) }
func exps(dst, x []float32)                          { expsGeneric(dst, x) }
func siluMuls(dst, gate, up []float32)               { siluMulsGeneric(dst, gate, up) }
func geluMuls(dst, gate, up []float32)               { geluMulsGeneric(dst, gate, up) }
func softCap(dst, x []float32, limit float32)        { softCapGeneric(dst, x, limit) }
func add(dst, a, b []float32)                        { addGeneric(dst, a, b) }
func mul(dst, a, b []float32)                        { mulGeneric(dst, a, b) }
func scale(dst, x []float32, s float32)              { scaleGeneric(dst, x, s) }
func scaleMul(dst, x, w []float32, s float32)        { scaleMulGeneric(dst, x, w, s) }
func axpy(dst, x []float32, s float32)               { axpyGeneric(dst, x, s) }
func ropePairs(x, cos, sin []float32)                { ropePairsGeneric(x, cos, sin) }
func ropeHalves(lo, hi, cos, sin []float32)          { ropeHalvesGeneric(lo, hi, cos, sin) }
func fromF16(dst []float32, x []uint16)              { fromF16Generic(dst, x) }
func toF16(dst []uint16, x []float32)                { toF16Generic(dst, x) }
func fromBF16(dst []float32, x []uint16)             { fromBF16Generic(dst, x) }
func toBF16(dst []uint16, x []float32)               { toBF16Generic(dst, x) }
func dot(a, b []float32) float32                     { return dotGeneric(a, b) }
func sum(x []float32) float32                        { return sumGeneric(x) }
func maximum(x []float32) float32                    { return maxGeneric(x) }
func expSum(dst, x []float32, shift float32) float32 { return expSumGeneric(dst, x, shift) }
func centre(dst, x []float32, mean float32) float32  { return centreGeneric(dst, x, mean) }
func addDot(dst, a, b []float32) float32             { return addDotGeneric(dst, a, b) }
func index(x []float32, v float32) int               { return indexGeneric(x, v) }
