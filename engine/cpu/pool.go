package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pool is a fixed set of workers, each locked to its thread. The caller of
// run is worker 0; the others park between runs.
//
// A run executes a list of stages; workers claim tasks of a stage from one
// counter and meet at a barrier before the next stage. Claiming rather than
// splitting keeps a busy machine from stalling everybody.
type pool struct {
	workers int
	wake    []chan []stage
	done    sync.WaitGroup
	arrived atomic.Int32
	phase   atomic.Uint32
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
	p := &pool{workers: workers}
	for w := 1; w < workers; w++ {
		c := make(chan []stage, 1)
		p.wake = append(p.wake, c)
		p.done.Add(1)
		go func() {
			defer p.done.Done()
			runtime.LockOSThread()
			for stages := range c {
				p.work(w, stages)
			}
		}()
	}
	return p
}

// close ends the workers and waits for them.
func (p *pool) close() {
	for _, c := range p.wake {
		close(c)
	}
	p.done.Wait()
}

// run executes the stages in order and returns when all are done.
func (p *pool) run(stages []stage) {
	for i := range stages {
		stages[i].next.Store(0)
	}
	for _, c := range p.wake {
		c <- stages
	}
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

// spins is how long a worker waits for the others before it lets the
// operating system run somebody else; about 50 µs.
const spins = 20000

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
		if i > spins {
			runtime.Gosched()
		}
	}
}
