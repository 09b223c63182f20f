package cpu

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"godwit/engine/cpu/kernel"
	"godwit/engine/fault"
)

// pool is a fixed set of workers, each locked to its thread. The caller of run
// is worker 0. The others spin briefly between runs and then park.
//
// A run executes a list of stages. Each worker begins with its share of a
// stage's tasks. The tasks of a share are consecutive, so that the worker reads
// weights in one stream. Then it helps with the shares of others. A stage ends
// when its tasks are done, whichever workers did them. A worker that the system
// has descheduled therefore delays the others only while it holds a task.
type pool struct {
	workers int
	stages  atomic.Pointer[[]stage] // stages of the current run
	short   atomic.Bool             // the current run has short tasks
	epoch   atomic.Uint32
	closed  atomic.Bool
	failed  atomic.Pointer[error]           // first error of the current run
	ctx     atomic.Pointer[context.Context] // context that may end the current run early; nil for none
	at      atomic.Int32                    // stage of the current run
	sleep   []parking
	done    sync.WaitGroup
}

// parking is the place where an idle worker waits.
type parking struct {
	parked atomic.Bool
	wake   chan struct{}
	_      [48]byte // one cache line per worker
}

// stage is one step of a program. Its tasks may run in any order. tasks is called
// once per run.
type stage struct {
	tasks func() int
	do    func(worker, task int)
	warm  func(worker, workers int) []byte // weights that a waiting worker may prefetch from now on; nil keeps the earlier ones
	reads func(worker, workers int) []byte // first weights of a worker's share; nil for none
	limit *atomic.Uint64                   // number of tasks in this run; on a cache line that is only read during the run
	count *counters
}

// counters hold the progress of a stage. The upper half of every word, and of
// the limit, holds the epoch of the run. A worker that is still in an earlier
// run therefore claims nothing, and shares need no reset.
type counters struct {
	done atomic.Uint64
	_    [56]byte
	next []share
}

// share holds the next task of a worker's share of a stage.
type share struct {
	next atomic.Uint64
	_    [56]byte
}

// warmNext makes every idle worker prefetch the first weights of its next share
// of a matrix until that matrix's stage begins.
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

// ready assigns counters to the stages.
func (p *pool) ready(stages []stage) []stage {
	limits := make([]atomic.Uint64, len(stages))
	for i := range stages {
		stages[i].limit = &limits[i]
		stages[i].count = &counters{next: make([]share, p.workers)}
	}
	return stages
}

// newPool starts the workers. A worker that computes or spins keeps its P for
// milliseconds, and there may be as many workers as Ps. newPool therefore adds
// one P. The rest of the program, such as sending the latest token, can then
// run at once instead of when a worker is preempted.
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
				break // a new run has begun, and it will not wake this worker
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

// begin starts the workers on a run.
func (p *pool) begin(epoch uint32) {
	p.epoch.Store(epoch)
	for w := 1; w < p.workers; w++ {
		if s := &p.sleep[w]; s.parked.CompareAndSwap(true, false) {
			s.wake <- struct{}{}
		}
	}
}

// close stops the workers and waits for them.
func (p *pool) close() {
	p.closed.Store(true)
	p.begin(p.epoch.Load() + 1)
	p.done.Wait()
}

// run executes the stages in order and returns when all are done. short is set
// if the tasks take no longer than a few claims. It returns the first error
// that a task reported, an error if mapped weights could not be read, or the
// error of ctx.
func (p *pool) run(ctx context.Context, stages *[]stage, short bool) error {
	if ctx.Done() == nil {
		p.ctx.Store(nil)
	} else {
		c := ctx // a copy, so that a run that cannot be cancelled allocates nothing
		p.ctx.Store(&c)
	}
	p.at.Store(0)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p.failed.Store(nil)
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
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// cancelled reports whether the result of the run is no longer needed.
func (p *pool) cancelled() bool {
	ctx := p.ctx.Load()
	return ctx != nil && (*ctx).Err() != nil
}

// fail keeps the first error of the current run; nil is not an error.
func (p *pool) fail(err error) {
	if err != nil {
		first := err // a copy, so that the usual nil allocates nothing
		p.failed.CompareAndSwap(nil, &first)
	}
}

// do executes a task, unless the run was cancelled. If a mapped file was cut short, reading it ends
// the task and not the process. Other panics propagate.
func (p *pool) do(s *stage, worker, task int) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		err, ok := fault.From(r)
		if !ok {
			panic(r)
		}
		p.fail(err)
	}()
	if !p.cancelled() {
		s.do(worker, task)
	}
}

// work executes the stages of a run until its end or until another run has
// begun.
func (p *pool) work(worker int, epoch uint32, stages []stage) {
	var ahead []byte // weights that the worker reads next
	short := p.short.Load()
	for i := range stages {
		s := &stages[i]
		limit := s.limit.Load()
		if uint32(limit>>32) != epoch {
			return
		}
		if worker == 0 {
			p.at.Store(int32(i))
		}
		for k := range p.workers {
			of := (worker + k) % p.workers
			from, to := shareOf(int(uint32(limit)), of, p.workers)
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
			// Add once per share, because all workers share this counter. The
			// worker that finishes the last task need not scan the other
			// shares, which would pull in their cache lines.
			if did > 0 && s.count.done.Add(did) == limit {
				break
			}
		}
		if s.warm != nil {
			ahead = s.warm(worker, p.workers)
			ahead = prefetchWeights(ahead, headBytes)
		}
		if !s.count.wait(epoch, int(uint32(limit)), &ahead) {
			return
		}
	}
}

// shareOf returns a worker's share of n tasks.
func shareOf(n, worker, workers int) (from, to int) {
	return n * worker / workers, n * (worker + 1) / workers
}

// claim takes tasks from share number of, which holds the tasks in [from, to). It
// takes one task, or half of the remaining tasks. n is 0 if no task is left. During a run,
// if a share has the epoch of another run, no task was claimed from it yet. A
// claim waits for all earlier stores. Workers therefore take half of their own
// share if tasks are short. If tasks are long, they take one, so that others
// can take the rest.
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

// prefetchWeights prefetches the first n bytes of weights and returns the rest.
func prefetchWeights(weights []byte, n int) []byte {
	n = min(n, len(weights))
	kernel.Prefetch(weights[:n])
	return weights[n:]
}

// A waiting worker polls spins times with the pause hint in between, for about
// 50 µs. Then it lets the operating system run another thread, yields times.
// Then it goes through Go's scheduler, which puts a locked thread to sleep.
// That costs microseconds, but lets other programs and the collector run.
const (
	spins  = 2000
	yields = 20
)

// wait returns true when every task of the stage is done, and false if the run
// is over. Meanwhile it prefetches the weights in ahead and removes them from
// it.
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
			*ahead = prefetchWeights(*ahead, prefetchBytes)
		case i < spins:
			pause()
		case i < spins+yields:
			yield()
		default:
			runtime.Gosched()
		}
	}
}
