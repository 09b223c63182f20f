//go:build !windows && (!unix || solaris || aix)

package fetch

import "os"

// tryLock does nothing, because this system has no file locks. Two processes
// that fetch at the same time do the work twice, and the last rename wins.
func tryLock(*os.File) bool { return true }
