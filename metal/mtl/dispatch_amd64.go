//go:build darwin && cgo

package mtl

import "github.com/ebitengine/purego"

// dispatch passes sizes as amd64 does: structs of more than two words are on the
// stack, after the six words in registers, of which the last four are unused.
func (w *Words) dispatch(encoder ID) {
	g, n := &w.grid, &w.group
	w.call = [...]uintptr{uintptr(encoder), sel.dispatch, 0, 0, 0, 0, g[0], g[1], g[2], n[0], n[1], n[2]}
	purego.SyscallN(functions.send, w.call[:]...)
}
