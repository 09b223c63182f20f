//go:build darwin && cgo

package mtl

// dispatch passes sizes as arm64 does: structs of more than two words by
// reference.
func dispatch(encoder ID, grid, group size) {
	send(encoder, sel.dispatch, ptr(&grid[0]), ptr(&group[0]))
}
