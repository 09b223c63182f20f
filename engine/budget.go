package engine

import (
	"errors"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/kv/layout"
)

// OwnReserve is the part of a budget, in bytes, that is reserved for the process itself:
// requests, vocabularies, images. Small budgets reserve an eighth of the budget instead.
const OwnReserve = 64 << 20

// HostFree returns the host memory that this process can still take, in bytes,
// or 0 if unknown.
func HostFree() int64 {
	list, err := (cpu.Driver{}).Devices()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[0].Free
}

// mostDeviceReserve is the upper limit of deviceReserve, in bytes.
const mostDeviceReserve = 256 << 20

// deviceReserve returns how many bytes of a device's memory loads leave free for the
// driver's tables, kernels and graphs, and for the screen. It returns 0 for the CPU.
func deviceReserve(i backend.Info) int64 {
	if i.Backend == cpu.Name {
		return 0
	}
	return min(mostDeviceReserve, max(i.Memory, i.Free)/16)
}

// spare returns the free memory of a device without its reserve; 0 if unknown.
func spare(i backend.Info) int64 {
	if i.Free <= 0 {
		return i.Free
	}
	return max(i.Free-deviceReserve(i), 1) // 0 would mean unknown
}

// held returns the bytes that the models of this process have reserved on the host,
// except the model at path. The caller holds a.mu.
func (a *Memory) held(path string) (n int64) {
	for _, c := range a.claims {
		if c.backend == cpu.Name && (path == "" || c.path != path) {
			n += c.need.Total()
		}
	}
	return n
}

// left returns the part of the budget that a load of the model at path can use. The
// process itself and all other models use the rest. The caller holds a.mu.
func (a *Memory) left(path string) int64 {
	return max(a.Budget-min(OwnReserve, a.Budget/8)-a.held(path), 0)
}

// within limits the free bytes of a device to what is left of the budget. The
// caller holds a.mu.
func (a *Memory) within(i backend.Info, free int64, path string) int64 {
	if a.Budget <= 0 || i.Backend != cpu.Name {
		return free
	}
	return max(min(free, a.left(path)), 1) // 0 would mean unknown
}

// changed reports what is left of the budget and publishes the untouched bytes. The
// caller holds a.mu.
func (a *Memory) changed() {
	a.publish()
	if a.Budget > 0 && a.Left != nil {
		a.Left(a.left(""))
	}
}

// Others returns the bytes that other processes have reserved and not touched.
func (a *Memory) Others() int64 {
	if a == nil || a.Ledger == nil {
		return 0
	}
	return a.Ledger.Others()
}

// BackendName returns the name of the backend that a load with these options uses.
func (o Options) BackendName() string {
	if onDevice(o) {
		return o.Driver.Name()
	}
	return cpu.Name
}

// OnHost reports whether a device has its memory on the host.
func OnHost(i backend.Info) bool { return i.Backend == cpu.Name }

// Holding is the memory of a loaded model on its device, in bytes.
type Holding struct {
	Weights   int64 // copied weights, without those read from the mapped file
	Cells     int64 // packed pages of the cache
	Exact     int64 // exact pages, pinned rows, and calibrations of conversations
	States    int64 // recurrent states
	Scratch   int64
	Untouched int64 // bytes of cells, exact pages and states that are reserved but use no memory yet
}

// Holding returns the memory that the model holds.
func (e *Engine) Holding() Holding { return holding(e.prog, &e.p.Layout) }

func holding(p backend.Program, l *layout.Layout) Holding {
	m := p.Memory()
	h := Holding{Weights: m.Weights, Exact: min(l.ExactTotal(), m.Cache), States: m.State, Scratch: m.Scratch}
	h.Cells = m.Cache - h.Exact
	if t, ok := p.(backend.Toucher); ok {
		h.Untouched = t.Untouched()
	}
	return h
}

// Spare returns the part of the budget that is left for another load, or 0
// without a budget.
func (a *Memory) Spare() int64 {
	if a.Budget <= 0 {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left("")
}

// ConversationMemory returns the range of layout.Settings.Memory for a load: the smallest
// value that works, and the value that keeps all positions exact. Both are 0 if the
// device or the types do not support it.
func (p *Prepared) ConversationMemory() (least, most int64, err error) {
	o := p.Options
	o.KV.Memory = 1
	_, err = p.model.Prepare(o, 0)
	var small *layout.BudgetError
	if errors.As(err, &small) {
		o.KV.Memory = max(small.Least, 1<<60)
		var all *Prepared
		if all, err = p.model.Prepare(o, 0); err == nil {
			if most = all.Layout.AllExact(); most > 0 {
				least = small.Least
			}
		}
	}
	if errors.Is(err, backend.ErrUnsupported) {
		err = nil
	}
	return least, most, err
}
