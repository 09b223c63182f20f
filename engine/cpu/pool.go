package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pool is a fixed set of workers, each locked to its thread. The caller of
// run is worker 0; the others spin briefly between runs and then park.
//
// A run executes a list of stages; workers claim tasks of a stage from one
// counter and meet at a barrier before the next stage. Claiming rather than
// splitting keeps a busy machine from stalling everybody.
type pool struct {
	workers int
	stages  []stage // of the run in progress
	epoch   atomic.Uint32
	closed  atomic.Bool
	sleep   []parking
	done    sync.WaitGroup

	arrived atomic.Int32
	phase   atomic.Uint32
}

// parking is where a worker waits when there has been nothing to do.
type parking struct {
	parked atomic.Bool
	wake   chan struct{}
	_      [48]byte // one cache line a worker
}

// stage is one step of a program: tasks that may run in any order.
type stage struct {
	tasks func() int
	do    func(worker, task int)
	next  *atomic.Int32
}

func newStage(tasks func() int, do func(worker, task int)) stage {
	return stage{tasks: tasks, do: do, next: new(atomic.Int32)}
}

func newPool(workers int) *pool {
	p := &pool{workers: workers, sleep: make([]parking, workers)}
	for w := 1; w < workers; w++ {
		p.sleep[w].wake = make(chan struct{}, 1)
		p.done.Add(1)
		go p.worker(w)
	}
	return p
}

// worker waits for runs until the pool is closed.
func (p *pool) worker(w int) {
	defer p.done.Done()
	runtime.LockOSThread()
	s := &p.sleep[w]
	seen := uint32(0)
	for {
		for i := 0; p.epoch.Load() == seen; i++ {
			if i < spins {
				pause()
				continue
			}
			s.parked.Store(true)
			if p.epoch.Load() != seen && s.parked.CompareAndSwap(true, false) {
				break // a run began meanwhile and will not wake this worker
			}
			<-s.wake
			break
		}
		seen = p.epoch.Load()
		if p.closed.Load() {
			return
		}
		p.work(w, p.stages)
	}
}

// begin lets the workers go.
func (p *pool) begin() {
	p.epoch.Add(1)
	for w := 1; w < p.workers; w++ {
		if s := &p.sleep[w]; s.parked.CompareAndSwap(true, false) {
			s.wake <- struct{}{}
		}
	}
}

// close ends the workers and waits for them.
func (p *pool) close() {
	p.closed.Store(true)
	p.begin()
	p.done.Wait()
}

// run executes the stages in order and returns when all are done.
func (p *pool) run(stages []stage) {
	for i := range stages {
		stages[i].next.Store(0)
	}
	p.stages = stages
	p.begin()
	p.work(0, stages)
}

func (p *pool) work(worker int, stages []stage) {
	for i := range stages {
		s := &stages[i]
		n := int32(s.tasks())
		for {
			t := s.next.Add(1) - 1
			if t >= n {
				break
			}
			s.do(worker, int(t))
		}
		p.barrier()
	}
}

// A waiting worker looks spins times with the processor's pause in between,
// about 50 µs, then lets the operating system run another thread yields
// times, then goes through Go's scheduler, which puts a locked thread to sleep
// and so costs microseconds, but lets a busy machine and the collector go on.
const (
	spins  = 2000
	yields = 20
)

// barrier waits until every worker has arrived.
func (p *pool) barrier() {
	if p.workers == 1 {
		return
	}
	phase := p.phase.Load()
	if p.arrived.Add(1) == int32(p.workers) {
		p.arrived.Store(0)
		p.phase.Add(1)
		return
	}
	for i := 0; p.phase.Load() == phase; i++ {
		switch {
		case i < spins:
			pause()
		case i < spins+yields:
			yield()
		default:
			runtime.Gosched()
		}
	}
}
