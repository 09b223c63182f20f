package api

import (
	"fmt"
	"io"
	"net/http"
	"runtime/metrics"

	"godwit/app/api/wire"
	"godwit/app/pool"
)

// memoryHeld is who holds what of the host's memory, in bytes.
type memoryHeld struct {
	Budget   int64          `json:"budget"` // 0: no bound
	Free     int64          `json:"free"`   // what a load can take of the budget
	Models   []pool.Holding `json:"models"`
	Prefixes *prefixHeld    `json:"prefixes,omitempty"`
	Others   int64          `json:"other_processes"` // reserved by other processes of Godwit and not touched
	Process  *processHeld   `json:"process,omitempty"`
}

// prefixHeld is the memory of kept prefixes.
type prefixHeld struct {
	Bytes int64 `json:"bytes"`
	Limit int64 `json:"limit"`
}

// processHeld is the memory of the process, where the system says it.
type processHeld struct {
	Resident int64 `json:"resident"` // without mapped files
	Heap     int64 `json:"heap"`     // memory of the Go program in Resident: prefixes, scratch, requests
}

// held says who holds what. Several keys that share nothing do not see what is kept
// nor how much memory has been touched: one would learn of another.
func (s *Server) held() memoryHeld {
	h := memoryHeld{Models: []pool.Holding{}}
	apart := len(s.guard.keys) > 1 && !s.o.Settings.Server.SharePrefixes
	h.Models = append(h.Models, s.pool.Holdings()...)
	if m := s.o.Memory; m != nil {
		h.Budget, h.Free, h.Others = m.Budget, m.Spare(), m.Others()
	}
	if apart {
		for i := range h.Models {
			h.Models[i].Untouched = 0
		}
		return h
	}
	if p := s.o.Prefixes; p != nil {
		u := p.Usage()
		h.Prefixes = &prefixHeld{u.Memory, u.MostMemory}
	}
	if n := resident(); n > 0 {
		h.Process = &processHeld{n, heap()}
	}
	return h
}

// heap is the memory that Go's runtime has of the system.
func heap() int64 {
	list := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(list)
	return int64(list[0].Value.Uint64()) - int64(list[1].Value.Uint64())
}

// whoHolds answers GET /api/memory.
func (s *Server) whoHolds(w http.ResponseWriter, _ *http.Request) error {
	wire.WriteJSON(w, http.StatusOK, s.held())
	return nil
}

// writeMemory writes the rows of /metrics about memory.
func (s *Server) writeMemory(w io.Writer) {
	h := s.held()
	var sum pool.Holding
	for _, m := range h.Models {
		sum.Weights += m.Weights
		sum.Cells += m.Cells
		sum.Exact += m.Exact
		sum.States += m.States
		sum.Scratch += m.Scratch
	}
	fmt.Fprintf(w, "# TYPE godwit_memory_bytes gauge\n")
	row := func(of string, n int64) { fmt.Fprintf(w, "godwit_memory_bytes{of=%q} %d\n", of, n) }
	row("weights", sum.Weights)
	row("cells", sum.Cells)
	row("exact", sum.Exact)
	row("states", sum.States)
	row("scratch", sum.Scratch)
	row("other_processes", h.Others)
	if h.Prefixes != nil {
		row("prefixes", h.Prefixes.Bytes)
	}
	if h.Process != nil {
		row("resident", h.Process.Resident)
		row("heap", h.Process.Heap)
	}
	fmt.Fprintf(w, "# TYPE godwit_memory_budget_bytes gauge\ngodwit_memory_budget_bytes %d\n", h.Budget)
}
