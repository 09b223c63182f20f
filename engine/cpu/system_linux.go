package cpu

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge requests huge pages. If the system refuses, only speed is lost.
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

// systemMemory returns the memory that this process may use and its free part,
// in bytes. It is the machine's memory, or less if a control group limits it.
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
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return total, free // a kernel without control groups
	}
	if limit, left := groupMemory("/sys/fs/cgroup", string(groups)); limit > 0 {
		total, free = min(total, limit), min(free, left)
	}
	return total, free
}

// untouched returns the size of the part of an anonymous mapping that has no
// physical pages yet.
func (m memory) untouched() int64 {
	const chunk = 1 << 30
	page := os.Getpagesize()
	state := make([]byte, min(chunk, len(m)+page)/page)
	var n int64
	for at := 0; at < len(m); at += chunk {
		part := m[at:min(at+chunk, len(m))]
		pages := (len(part) + page - 1) / page
		_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&part[0])), uintptr(len(part)), uintptr(unsafe.Pointer(&state[0])))
		if e != 0 {
			return 0 // unknown, so the system's value is used unchanged
		}
		for i := range pages {
			if state[i]&1 == 0 {
				n += int64(min(page, len(part)-i*page))
			}
		}
	}
	return n
}
