package kernel

import "fmt"

// Copy copies row src of from to row row. from must have as many columns.
func (a *Acts) Copy(row int, from *Acts, src int) {
	if a.cols != from.cols {
		panic(fmt.Sprintf("kernel: copy of %d activations to %d columns", from.cols, a.cols))
	}
	copy(a.row(row), from.row(src))
}
