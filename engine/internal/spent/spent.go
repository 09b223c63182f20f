// Package spent measures the work of a test: a bound on it holds on a machine that
// other programs keep busy.
package spent

import (
	"testing"
	"time"
)

// Time is the processor time that f takes with all its goroutines; where the system
// does not tell, the time.
func Time(t testing.TB, f func()) time.Duration {
	t.Helper()
	before := used(t)
	f()
	return used(t) - before
}
