//go:build amd64 || arm64

package cpu

// pause tells the processor that this thread spins.
//

func pause()
