//go:build !amd64 && !arm64

package kernel

func stream(p []byte) uint64    { return streamGeneric(p) }
func products(rounds int) int64 { return productsGeneric(max(rounds, 0)) }
func prefetch([]byte)           {}
