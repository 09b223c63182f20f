package kernel

import "fmt"

// Copy makes a row the same as row src of from, which has as many columns.
func (a *Acts) Copy(row int, from *Acts, src int) {
	if a.cols != from.cols {
		panic(fmt.Sprintf("kernel: copy of %d activations to %d columns", from.cols, a.cols))
	}
	copy(a.row(row), from.row(src))
}
