//go:build amd64 || arm64

package kernel

// own prefetches n lines of 64 bytes for writing; n is not 0.
//
//go:noescape
func own(p *byte, n int)
