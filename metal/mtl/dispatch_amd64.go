//go:build darwin && cgo

package mtl

import "github.com/ebitengine/purego"

// dispatch passes sizes as amd64 does: structs of more than two words on the
// stack, behind the six words in registers, of which the last four stay unused.
func dispatch(encoder ID, grid, group size) {
	purego.SyscallN(functions.send, uintptr(encoder), sel.dispatch, 0, 0, 0, 0,
		grid[0], grid[1], grid[2], group[0], group[1], group[2])
}
