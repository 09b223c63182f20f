// Package spent measures the processor time of a test, so that a limit on it holds
// even if other programs keep the machine busy.
package spent

import (
	"testing"
	"time"
)

// Time returns the processor time that f takes, including its goroutines. If the
// system does not report it, Time returns the elapsed time.
func Time(t testing.TB, f func()) time.Duration {
	t.Helper()
	before := used(t)
	f()
	return used(t) - before
}
