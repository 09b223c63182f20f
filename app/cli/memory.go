package cli

import (
	"math"
	"os"
	"runtime/debug"

	"godwit/app/config"
	"godwit/engine"
)

// What of free memory is not taken where nobody says how much may be, and where the
// system does not say what is free.
const (
	leastReserve  = 1 << 30
	unknownMemory = 8 << 30
)

// budget sets what the models and kept prefixes of a server may take of the host's
// memory.
func (r *run) budget(s *config.Server) {
	if s.Memory != nil {
		r.memory.Budget = int64(*s.Memory)
		return
	}
	free := engine.HostFree() - r.memory.Others()
	if free <= 0 {
		free = unknownMemory
	}
	r.memory.Budget = free - min(free/2, max(leastReserve, engine.HostMemory()/8))
}

// divide returns what divides the bytes that models leave of the budget: kept
// prefixes get all of it, and never more than most. The same figure limits Go's own
// memory, which has them, and a little more for the process. GOMEMLIMIT stands above
// it.
func divide(store *engine.Prefixes, most int64) func(left int64) {
	own := os.Getenv("GOMEMLIMIT") != ""
	return func(left int64) {
		kept := min(left, most)
		shrinks := store.Usage().Memory > kept
		store.SetMemory(kept)
		if !own {
			debug.SetMemoryLimit(min(left, math.MaxInt64-engine.OwnReserve) + engine.OwnReserve)
		}
		if shrinks {
			debug.FreeOSMemory() // a load is about to take it
		}
	}
}
