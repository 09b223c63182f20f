//go:build darwin && cgo

package mtl

import "unsafe"

// dispatch passes the sizes by arm64's calling convention. Structs of more than
// two words are passed by reference.
func (w *Words) dispatch(encoder ID) {
	w.send(encoder, sel.dispatch, uintptr(unsafe.Pointer(&w.grid)), uintptr(unsafe.Pointer(&w.group)), 0)
}
