package wire

import "math"

// Unit scales a row to length 1, as in OpenAI's embeddings. A row of zeros stays
// zero.
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
