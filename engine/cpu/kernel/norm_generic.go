package kernel

// addDotGeneric stores a+b and returns the sum of its squares.
func addDotGeneric(dst, a, b []float32) float32 {
	var s [lanes]float32
	return addDotRest(&s, dst, a, b)
}

func addDotRest(s *[lanes]float32, dst, a, b []float32) float32 {
	addGeneric(dst, a, b)
	return dotRest(s, dst, dst)
}

// indexGeneric returns the first index of v in x, or -1.
func indexGeneric(x []float32, v float32) int {
	for i, f := range x {
		if f == v {
			return i
		}
	}
	return -1
}
