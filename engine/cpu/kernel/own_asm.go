//go:build amd64 || arm64

package kernel

// own asks for n lines of 64 bytes, to be written; n is not 0.
//
//go:noescape
func own(p *byte, n int)
