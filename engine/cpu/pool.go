package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pool is a fixed set of workers, each locked to its thread. The caller of
// run is worker 0; the others spin briefly between runs and then park.
//
// A run executes a list of stages. Workers claim the tasks of a stage from one
// counter, and a stage is over when its tasks are done, whoever did them: on a
// busy machine a worker that the system has put aside holds up nobody unless
// it holds a task.
type pool struct {
	workers int
	stages  atomic.Pointer[[]stage] // of the run in progress
	epoch   atomic.Uint32
	closed  atomic.Bool
	sleep   []parking
	done    sync.WaitGroup
}

// parking is where a worker waits when there has been nothing to do.
type parking struct {
	parked atomic.Bool
	wake   chan struct{}
	_      [48]byte // one cache line a worker
}

// stage is one step of a program: tasks that may run in any order. tasks is
// asked once a run.
type stage struct {
	tasks func() int
	do    func(worker, task int)
	count *counters
}

// counters are the progress of a stage. The upper halves of next and done
// hold the run's epoch, so that a worker that comes late from an earlier run
// claims nothing.
type counters struct {
	next, done atomic.Uint64
	limit      atomic.Uint32
	_          [40]byte
}

func newStage(tasks func() int, do func(worker, task int)) stage {
	return stage{tasks: tasks, do: do, count: new(counters)}
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
		p.work(w, seen, *p.stages.Load())
	}
}

// begin lets the workers go.
func (p *pool) begin(epoch uint32) {
	p.epoch.Store(epoch)
	for w := 1; w < p.workers; w++ {
		if s := &p.sleep[w]; s.parked.CompareAndSwap(true, false) {
			s.wake <- struct{}{}
		}
	}
}

// close ends the workers and waits for them.
func (p *pool) close() {
	p.closed.Store(true)
	p.begin(p.epoch.Load() + 1)
	p.done.Wait()
}

// run executes the stages in order and returns when all are done.
func (p *pool) run(stages *[]stage) {
	epoch := p.epoch.Load() + 1
	for i := range *stages {
		c := (*stages)[i].count
		c.limit.Store(uint32((*stages)[i].tasks()))
		c.done.Store(uint64(epoch) << 32)
		c.next.Store(uint64(epoch) << 32)
	}
	p.stages.Store(stages)
	p.begin(epoch)
	p.work(0, epoch, *stages)
}

// work goes through the stages of a run, until its end or until another run
// has begun.
func (p *pool) work(worker int, epoch uint32, stages []stage) {
	for i := range stages {
		s := &stages[i]
		for {
			task, ok := s.count.claim(epoch)
			if !ok {
				break
			}
			s.do(worker, task)
			s.count.done.Add(1)
		}
		if !s.count.wait(epoch) {
			return
		}
	}
}

// claim takes a task of a run; false if there are none left.
func (c *counters) claim(epoch uint32) (int, bool) {
	for {
		v := c.next.Load()
		limit := c.limit.Load()
		if uint32(v>>32) != epoch || uint32(v) >= limit {
			return 0, false
		}
		if c.next.CompareAndSwap(v, v+1) {
			return int(uint32(v)), true
		}
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

// wait returns true when every task of the stage is done, false if the run is over.
func (c *counters) wait(epoch uint32) bool {
	for i := 0; ; i++ {
		v := c.done.Load()
		if uint32(v>>32) != epoch {
			return false
		}
		if uint32(v) == c.limit.Load() {
			return true
		}
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
