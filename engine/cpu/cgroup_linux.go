package cpu

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// groupMemory returns the tightest memory limit of a process's control groups and the least free
// memory of any of them, in bytes. They are 0 without a limit. Cached pages of files count as free,
// as in MemAvailable. root is the mount point of the groups, and membership is the text of
// /proc/self/cgroup. Both versions of control groups are supported.
func groupMemory(root, membership string) (limit, free int64) {
	limit, free = math.MaxInt64, math.MaxInt64
	for line := range strings.Lines(membership) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		g := groupFiles{"memory.max", "memory.current", "", root}
		switch {
		case f[0] == "0" && f[1] == "":
		case strings.Contains(","+f[1]+",", ",memory,"):
			g = groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_", filepath.Join(root, "memory")}
		default:
			continue
		}
		// A container may see only its own group, mounted as the root.
		for dir := filepath.Clean("/" + f[2]); ; dir = filepath.Dir(dir) {
			if l, n, ok := g.read(dir); ok {
				limit, free = min(limit, l), min(free, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	if limit == math.MaxInt64 {
		return 0, 0
	}
	return limit, max(free, 1)
}

// groupFiles are the files with the memory limits and usage of a control group.
type groupFiles struct {
	limit, usage string
	prefix       string // prefix of the memory.stat entries that include child groups
	root         string
}

// read returns the limit and the free memory of a group.
func (g *groupFiles) read(dir string) (limit, free int64, ok bool) {
	number := func(name string) (int64, bool) {
		b, err := os.ReadFile(filepath.Join(g.root, dir, name))
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" is not a limit
		return n, err == nil
	}
	limit, ok = number(g.limit)
	used, known := number(g.usage)
	if !ok || !known || limit > math.MaxInt64/2 {
		return 0, 0, false
	}
	stat, err := os.ReadFile(filepath.Join(g.root, dir, "memory.stat"))
	if err == nil {
		for line := range strings.Lines(string(stat)) {
			if name, n, _ := strings.Cut(strings.TrimSpace(line), " "); name == g.prefix+"inactive_file" || name == g.prefix+"active_file" {
				cached, err := strconv.ParseInt(n, 10, 64)
				if err == nil {
					used -= cached
				}
			}
		}
	}
	return limit, max(limit-max(used, 0), 1), true
}
