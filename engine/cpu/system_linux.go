package cpu

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for huge pages; a refusal costs only speed.
func adviseHuge(m []byte) {
	const huge = 2 << 20
	if len(m) >= huge {
		_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	}
}

// Cores returns the number of physical cores that this process may use.
func Cores() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return runtime.NumCPU()
	}
	seen := make(map[string]bool)
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	for _, f := range files {
		cpu := strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(f))), "cpu")
		n, err := strconv.Atoi(cpu)
		if err != nil || !set.IsSet(n) {
			continue
		}
		if b, err := os.ReadFile(f); err == nil {
			seen[string(b)] = true
		}
	}
	if len(seen) == 0 {
		return runtime.NumCPU()
	}
	return len(seen)
}

// systemMemory returns the machine's memory and its free part, in bytes.
func systemMemory() (total, free int64) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			free = n << 10
		}
	}
	return total, free
}
