package cpu

import (
	"os"
	"path/filepath"
	"testing"
)

// The limits of both versions of control groups count, including the limits of
// parent groups.
func TestGroupMemory(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		membership  string
		files       map[string]string
		limit, free int64
	}{
		"none":      {"0::/\n", nil, 0, 0},
		"unlimited": {"0::/a\n", map[string]string{"a/memory.max": "max\n", "a/memory.current": "1048576\n"}, 0, 0},
		"second version": {
			"0::/a/b\n",
			map[string]string{
				"a/b/memory.max": "max\n", "a/b/memory.current": "1048576\n",
				"a/memory.max": "104857600\n", "a/memory.current": "52428800\n", "a/memory.stat": "anon 1\nactive_file 10485760\ninactive_file 10485760\n",
			},
			100 * mib, 70 * mib,
		},
		"tightest free": {
			"0::/a/b\n",
			map[string]string{
				"a/b/memory.max": "104857600\n", "a/b/memory.current": "1048576\n",
				"a/memory.max": "209715200\n", "a/memory.current": "199229440\n",
			},
			100 * mib, 10 * mib,
		},
		"mounted as the root": {"0::/elsewhere\n", map[string]string{"memory.max": "1048576\n", "memory.current": "2097152\n"}, mib, 1},
		"first version": {
			"9:name=systemd:/x\n4:cpu,memory:/c\n0::/\n",
			map[string]string{
				"memory/c/memory.limit_in_bytes": "104857600\n", "memory/c/memory.usage_in_bytes": "31457280\n",
				"memory/c/memory.stat":         "inactive_file 1\ntotal_inactive_file 10485760\ntotal_active_file 0\n",
				"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "1\n",
			},
			100 * mib, 80 * mib,
		},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if limit, free := groupMemory(root, c.membership); limit != c.limit || free != c.free {
			t.Errorf("%s: %d bytes of %d free, want %d of %d", name, free, limit, c.free, c.limit)
		}
	}
}

// Memory that is reserved and not written is untouched. Written memory is not.
func TestUntouched(t *testing.T) {
	const n = 64 << 20
	m, err := allocate(n)
	if err != nil {
		t.Fatal(err)
	}
	defer m.free() //nolint:errcheck // the test is over
	if got := m.untouched(); got != n {
		t.Fatalf("%d bytes of %d untouched before the first write", got, n)
	}
	for i := 0; i < n/2; i += 4096 {
		m[i] = 1
	}
	if got := m.untouched(); got > n/2 || got < n/2-4<<20 { // a huge page at the border
		t.Errorf("%d bytes of %d untouched after half was written", got, n)
	}
	if got := memory(nil).untouched(); got != 0 {
		t.Errorf("%d bytes of nothing untouched", got)
	}
}
