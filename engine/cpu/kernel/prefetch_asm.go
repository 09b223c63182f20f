//go:build amd64 || arm64

package kernel

// prefetchForWrite prefetches n lines of 64 bytes for writing; n is not 0.
//
//go:noescape
func prefetchForWrite(p *byte, n int)
