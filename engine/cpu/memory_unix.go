//go:build unix

package cpu

import "golang.org/x/sys/unix"

// memory is an anonymous mapping: zeroed, page-aligned, invisible to the
// garbage collector, and returned to the system as soon as it is freed.
type memory []byte

func allocate(n int) (memory, error) {
	if n == 0 {
		return nil, nil
	}
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	adviseHuge(m)
	return m, nil
}

func (m memory) free() error {
	if m == nil {
		return nil
	}
	return unix.Munmap(m)
}

// lock keeps the memory from being swapped out.
func (m memory) lock() error { return unix.Mlock(m) }
