package cli

import (
	"math"
	"os"
	"runtime/debug"

	"godwit/app/config"
	"godwit/engine"
)

// Memory that is left free if the user sets no limit, and if the system does not
// report how much is free.
const (
	leastReserve  = 1 << 30
	unknownMemory = 8 << 30
)

// budget sets how much host memory the models and stored prefixes of a server may
// use.
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

// divide returns a function that must be called with the part of the budget, in
// bytes, that models leave unused. Stored prefixes may use all of it, up to
// most. Go's heap, which contains the prefixes, is limited to the same amount
// plus a reserve for the process. GOMEMLIMIT takes precedence.
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
			debug.FreeOSMemory() // a load needs the memory now
		}
	}
}
