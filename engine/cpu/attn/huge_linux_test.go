package attn

import (
	"testing"

	"golang.org/x/sys/unix"
)

// huge is memory in huge pages, as the backend holds its cache.
func huge(b testing.TB, n int) []byte {
	m, err := unix.Mmap(-1, 0, (n+1<<22-1)&^(1<<21-1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Munmap(m) })
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	return m[:n]
}
