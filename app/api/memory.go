package api

import (
	"fmt"
	"io"
	"net/http"
	"runtime/metrics"

	"godwit/app/api/wire"
	"godwit/app/pool"
)

// memoryHeld describes how much memory the parts of the program use, in bytes. The
// budget is of host memory.
type memoryHeld struct {
	Budget   int64          `json:"budget"` // 0 if there is no limit
	Free     int64          `json:"free"`   // part of the budget that a load can use
	Models   []pool.Holding `json:"models"`
	Devices  []pool.Device  `json:"devices,omitempty"` // devices of models that are not on the host
	Prefixes *prefixHeld    `json:"prefixes,omitempty"`
	Others   int64          `json:"other_processes"` // memory that other processes of Godwit have reserved, but not used yet
	Process  *processHeld   `json:"process,omitempty"`
}

// prefixHeld is the memory of stored prefixes.
type prefixHeld struct {
	Bytes int64 `json:"bytes"`
	Limit int64 `json:"limit"`
}

// processHeld is the memory of the process as the system reports it.
type processHeld struct {
	Resident int64 `json:"resident"` // resident memory without mapped files
	Heap     int64 `json:"heap"`     // memory of the Go heap, which is part of Resident: prefixes, scratch, requests
}

// held describes the memory in use. If the server has several API keys that
// share nothing, the size of stored prefixes and the touched memory are hidden,
// because one client could learn about another client.
func (s *Server) held() memoryHeld {
	h := memoryHeld{Models: []pool.Holding{}}
	apart := s.guard.several() && !s.o.Settings.Server.SharePrefixes
	h.Models, h.Devices = append(h.Models, s.pool.Holdings()...), s.pool.Devices()
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

// heap returns the memory that Go's runtime has obtained from the system.
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

// writeMemory writes the lines of /metrics about memory.
func (s *Server) writeMemory(w io.Writer) {
	h := s.held()
	var sum pool.Holding
	for _, m := range h.Models {
		if !m.Host {
			continue
		}
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
	if len(h.Devices) > 0 {
		fmt.Fprintf(w, "# TYPE godwit_device_memory_bytes gauge\n")
	}
	for _, d := range h.Devices {
		name := fmt.Sprintf("godwit_device_memory_bytes{backend=%q,device=%q", d.Backend, d.Device)
		fmt.Fprintf(w, "%[1]s,of=\"models\"} %d\n%[1]s,of=\"free\"} %d\n%[1]s,of=\"all\"} %d\n", name, d.Models, d.Free, d.Memory)
	}
}
