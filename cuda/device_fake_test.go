//go:build device && linux

package cuda

import (
	"testing"

	"godwit/engine/backend"
)

// With GODWIT_DEVICE=fake, the script runs over a fake driver, with small
// matrices and contexts. The only purpose is to test the script.
func init() {
	var one *fake // one for the process, because its callbacks are
	fakeCard = func(t *testing.T) backend.Driver {
		if one == nil {
			one = newFake(t)
		}
		return driver("cuda", one.api)
	}
}
