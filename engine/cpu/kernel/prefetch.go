package kernel

import "unsafe"

// line is the size of a cache line in bytes.
const line = 64

// PrefetchForWrite prefetches for writing the cache lines of n values of a row, starting at index
// from. Lines that another processor has read must be invalidated there first. from and n must be
// multiples of 32. It returns at once and has no other effect.
func (a *Acts) PrefetchForWrite(row, from, n int) {
	b := a.row(row)[from/32 : (from+n)/32]
	if len(b) > 0 {
		PrefetchForWrite(unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), len(b)*int(unsafe.Sizeof(b[0]))))
	}
}

// PrefetchForWrite prefetches bytes that will be written.
func PrefetchForWrite(b []byte) {
	if len(b) > 0 {
		prefetchForWrite(&b[0], (int(uintptr(unsafe.Pointer(&b[0]))%line)+len(b)+line-1)/line)
	}
}

// PrefetchRow is like Prefetch, for floats.
func PrefetchRow(x []float32) {
	if len(x) > 0 {
		Prefetch(unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)))
	}
}
