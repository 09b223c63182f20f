//go:build darwin && cgo

package mtl

// dispatch passes sizes as arm64 does: structs of more than two words by
// reference.
func (w *Words) dispatch(encoder ID) {
	w.send(encoder, sel.dispatch, ptr(&w.grid), ptr(&w.group), 0)
}
