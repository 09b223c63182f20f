//go:build device && linux

package cuda

import (
	"testing"

	"godwit/engine/backend"
)

// With GODWIT_DEVICE=fake the script runs over the driver that is not a card, with
// matrices and contexts so small that it shows nothing but that the script works.
func init() {
	var one *fake // its callbacks are of the process
	fakeCard = func(t *testing.T) backend.Driver {
		if one == nil {
			one = newFake(t)
		}
		return driver("cuda", one.api)
	}
}
