//go:build darwin && cgo

package mtl

import "unsafe"

// dispatch passes sizes as arm64 does: structs of more than two words by
// reference.
func (w *Words) dispatch(encoder ID) {
	w.send(encoder, sel.dispatch, uintptr(unsafe.Pointer(&w.grid)), uintptr(unsafe.Pointer(&w.group)), 0)
}
