package api

import (
	"os"
	"strconv"
	"strings"
)

// resident returns the memory of this process without mapped files, or 0 if
// unknown.
func resident() (n int64) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			n += kib << 10
		}
	}
	return n
}
