//go:build !amd64 && !arm64

package cpu

// pause has no instruction of its own here.
func pause() {}
