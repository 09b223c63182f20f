//go:build !amd64 && !arm64

package cpu

// pause does nothing on this architecture.
func pause() {}
