// Package sat adds and multiplies sizes that saturate at the largest int64.
package sat

import "math"

// Add returns a + b. Neither may be negative.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Mul returns a·n. Neither may be negative.
func Mul(a int64, n int) int64 {
	if n > 0 && a > math.MaxInt64/int64(n) {
		return math.MaxInt64
	}
	return a * int64(n)
}
