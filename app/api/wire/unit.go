package wire

import "math"

// Unit makes a row as long as 1, as OpenAI's are; a row of zeros stays.
func Unit(row []float32) []float32 {
	var sum float64
	for _, x := range row {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return row
	}
	by := 1 / math.Sqrt(sum)
	for i, x := range row {
		row[i] = float32(float64(x) * by)
	}
	return row
}
