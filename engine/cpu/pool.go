package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"godwit/engine/cpu/kernel"
)

// pool is a fixed set of workers, each locked to its thread. The caller of
// run is worker 0; the others spin briefly between runs and then park.
//
// A run executes a list of stages. Each worker begins with a share of a
// stage's tasks that lie side by side, so that it reads weights in one stream,
// and then helps with the shares of others; a stage is over when its tasks are
// done, whoever did them: on a busy machine a worker that the system has put
// aside holds up nobody unless it holds a task.
type pool struct {
	workers int
	stages  atomic.Pointer[[]stage] // of the run in progress
	short   atomic.Bool             // its tasks are short
	epoch   atomic.Uint32
	closed  atomic.Bool
	fault   atomic.Pointer[fault] // the first of the run in progress
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
	warm  func(worker, workers int) []byte // the weights that a worker may fetch from here on when it waits; nil for what it was
	reads func(worker, workers int) []byte // the weights that a worker's share begins with; nil for none
	limit *atomic.Uint64                   // tasks of the run, beside those of other stages: nobody writes them meanwhile
	count *counters
}

// counters are the progress of a stage. The upper half of every word, and of
// the limit, holds the run's epoch, so that a worker that comes late from an
// earlier run claims nothing, and shares need no reset.
type counters struct {
	done atomic.Uint64
	_    [56]byte
	next []share
}

// share is the next task of a worker's share of a stage.
type share struct {
	next atomic.Uint64
	_    [56]byte
}

// warmNext makes every worker fetch the first weights of its next share of a
// matrix when it has nothing left to do, until that matrix comes.
func warmNext(stages []stage) {
	for i := range stages {
		if i > 0 && stages[i].reads == nil {
			continue
		}
		for j := range stages[i+1:] {
			if reads := stages[i+1+j].reads; reads != nil {
				stages[i].warm = reads
				break
			}
		}
	}
}

func newStage(tasks func() int, do func(worker, task int)) stage {
	return stage{tasks: tasks, do: do}
}

// ready gives the stages their counters.
func (p *pool) ready(stages []stage) []stage {
	limits := make([]atomic.Uint64, len(stages))
	for i := range stages {
		stages[i].limit = &limits[i]
		stages[i].count = &counters{next: make([]share, p.workers)}
	}
	return stages
}

// newPool starts the workers. A worker that computes or spins keeps its
// processor of Go's for milliseconds, and there may be as many workers as those:
// one more is made, so that what else the program does, such as sending the
// token that was just made, runs when it can and not when a worker is stopped.
func newPool(workers int) *pool {
	if runtime.GOMAXPROCS(0) <= workers {
		runtime.GOMAXPROCS(workers + 1)
	}
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
	debug.SetPanicOnFault(true)
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

// run executes the stages in order and returns when all are done; short says that
// their tasks take no longer than some claims. The error says that mapped
// weights could not be read.
func (p *pool) run(stages *[]stage, short bool) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p.fault.Store(nil)
	epoch := p.epoch.Load() + 1
	for i := range *stages {
		s := &(*stages)[i]
		s.count.done.Store(uint64(epoch) << 32)
		s.limit.Store(uint64(epoch)<<32 | uint64(s.tasks()))
	}
	p.stages.Store(stages)
	p.short.Store(short)
	p.begin(epoch)
	p.work(0, epoch, *stages)
	if f := p.fault.Load(); f != nil {
		return f
	}
	return nil
}

// fault is memory that is mapped and cannot be read: the file behind it was cut
// short by another program, or its disk is gone.
type fault struct{ address uintptr }

func (f *fault) Error() string {
	return fmt.Sprintf("cpu: memory at %#x cannot be read: the model file was cut short, or its disk is gone", f.address)
}

// do works on a task. A fault ends the task, not the process; other panics go on.
func (p *pool) do(s *stage, worker, task int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // see debug.SetPanicOnFault
			p.fault.CompareAndSwap(nil, &fault{r.Addr()})
		default:
			panic(r)
		}
	}()
	s.do(worker, task)
}

// work goes through the stages of a run, until its end or until another run
// has begun.
func (p *pool) work(worker int, epoch uint32, stages []stage) {
	var ahead []byte // the weights that the worker reads next
	short := p.short.Load()
	for i := range stages {
		s := &stages[i]
		limit := s.limit.Load()
		if uint32(limit>>32) != epoch {
			return
		}
		for k := range p.workers {
			of := (worker + k) % p.workers
			from, to := part(int(uint32(limit)), of, p.workers)
			did := uint64(0)
			for {
				task, n := s.claim(of, epoch, from, to, short && k == 0)
				if n == 0 {
					break
				}
				for i := range n {
					p.do(s, worker, task+i)
				}
				did += uint64(n)
			}
			// Added once a share: the word is every worker's. Who did the last
			// task need not look at the shares of others, lines of theirs.
			if did > 0 && s.count.done.Add(did) == limit {
				break
			}
		}
		if s.warm != nil {
			ahead = s.warm(worker, p.workers)
			ahead = fetch(ahead, headBytes)
		}
		if !s.count.wait(epoch, int(uint32(limit)), &ahead) {
			return
		}
	}
}

// part is the share of one of several workers in n tasks.
func part(n, worker, workers int) (from, to int) {
	return n * worker / workers, n * (worker + 1) / workers
}

// claim takes a task of a share, which has from to to-1, or half of what is left;
// n is 0 if there are none left. While a run lasts, a share that has the word of
// another run is one that nobody has claimed from. A claim waits for all that was
// stored before it, so a worker takes half of its own share where tasks are short;
// where they are long, others may take what it does not come to.
func (s *stage) claim(of int, epoch uint32, from, to int, half bool) (task, n int) {
	if from == to {
		return 0, 0
	}
	next := &s.count.next[of].next
	for {
		v := next.Load()
		task, n := from, 1
		if uint32(v>>32) == epoch {
			task = int(uint32(v))
		} else if uint32(s.limit.Load()>>32) != epoch {
			return 0, 0
		}
		if task == to {
			return 0, 0
		}
		if half {
			n = (to - task + 1) / 2
		}
		if next.CompareAndSwap(v, uint64(epoch)<<32|uint64(task+n)) {
			return task, n
		}
	}
}

// fetch asks for the first n bytes of weights and returns the rest.
func fetch(weights []byte, n int) []byte {
	n = min(n, len(weights))
	kernel.Prefetch(weights[:n])
	return weights[n:]
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
// Meanwhile it fetches weights that come next, and takes them off ahead.
func (c *counters) wait(epoch uint32, limit int, ahead *[]byte) bool {
	for i := 0; ; i++ {
		v := c.done.Load()
		if uint32(v>>32) != epoch {
			return false
		}
		if int(uint32(v)) == limit {
			return true
		}
		switch {
		case len(*ahead) > 0:
			*ahead = fetch(*ahead, fetchBytes)
		case i < spins:
			pause()
		case i < spins+yields:
			yield()
		default:
			runtime.Gosched()
		}
	}
}
