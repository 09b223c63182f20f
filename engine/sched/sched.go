// Package sched runs many sequences on one device. A single goroutine, locked to its thread, owns
// the program and the cache. Other goroutines send it functions over a channel, so neither needs a
// mutex.
//
// Every step is one batch: a row for each sequence that is generating, and chunks of the prompts
// that are still being read. A finished sequence keeps its cells until another job needs them. A
// later prompt with the same beginning reuses them instead of computing them again.
package sched

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/prefix"
	"godwit/engine/sample"
)

// ErrTooLong is the class of errors about prompts that can never fit.
var ErrTooLong = errors.New("prompt is longer than the context")

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the engine is closed")

// ErrBusy is returned if too many jobs are waiting already.
var ErrBusy = errors.New("too many requests wait for this model")

// ErrSlot is the class of errors about slots.
var ErrSlot = errors.New("slot")

// TooLong carries the numbers of an ErrTooLong.
type TooLong struct{ Prompt, Context int }

func (e *TooLong) Error() string {
	if e.Prompt == e.Context {
		return fmt.Sprintf("prompt fills the context: its %d tokens fill the context of %d, but one must be left for the answer", e.Prompt, e.Context)
	}
	return fmt.Sprintf("%v: %d tokens do not fit into the context of %d", ErrTooLong, e.Prompt, e.Context)
}

// Unwrap returns the class, for errors.Is.
func (e *TooLong) Unwrap() error { return ErrTooLong }

// Finish says why a job ended.
type Finish uint8

// The ends of a job.
const (
	Stopped Finish = iota // Next returned more = false
	Length                // the context is full
	Failed                // an error, including cancellation
)

// Job is one prompt, with callbacks for the logits after it.
type Job struct {
	Prompt []llm.Token // token ids; negative ids stand for rows of Tiles
	Tiles  []Tile      // pictures in the prompt, in order
	// Next gets the logits of the last token. It returns the next token, and
	// whether to continue. It runs on the scheduler's goroutine, once per step.
	Next func(logits []float32) (next llm.Token, more bool, err error)
	// Apart means that Next may take long. It then runs on a separate
	// goroutine, one call at a time, and other jobs' steps do not wait for it.
	// Done is called after its last call.
	Apart bool
	// Top is the number of largest logits that Next looks at. The other logits
	// may be minus infinity. 0 means all.
	Top int
	// Drafter proposes tokens that Next may choose, so that one step can verify several. Next is
	// called for every token, and chooses the same tokens as without a Drafter. nil means none.
	Drafter Drafter
	// Row, if set, gets the logits of the positions that Want selects, in
	// order. Next may then be nil, and the job ends with its prompt.
	Row  func(pos int, logits []float32) error
	Want func(pos int) bool
	// Done is called once at the end, on the scheduler's goroutine.
	Done func(Finish, Stats, error)
	// Prefilled is called with the number of prompt tokens read so far. It may be nil.
	Prefilled func(done int, st *Stats)

	Fresh    bool // recompute the whole prompt
	Strays   bool // NaN in a layer does not end the job; for jobs that search for that layer
	OneByOne bool // feed the prompt through decode, one token per step
	Slot     int  // the slot to use; negative for any
	Most     int  // largest number of answer tokens; 0 for as many as fit
	Keep     int  // leading tokens that a shift keeps; negative for the whole prompt

	Borders []int    // positions at which messages of the prompt end
	Roles   []string // roles of the messages between Borders; "" for unknown ones
	Salt    string   // only jobs with the same salt share what was read
	Private bool     // forget the job's text when it ends
}

// Stats are the counts and times of a job.
type Stats struct {
	Slot      int
	Prompt    int        // tokens of the prompt
	Cached    int        // prompt tokens that were not read again
	Spliced   int        // prompt tokens whose rows were copied from another position, see Options.Splice
	Stored    int        // cached tokens that came from the prefix store
	FromDisk  int        // cached tokens whose pages were on disk
	TextKey   prefix.Key // key of the text's last whole page, for EraseText; zero if the text is not kept
	Ended     int        // position at which the reuse of the prompt ended
	Why       string     // reason why the reuse ended there
	Generated int
	Drafted   int           // tokens that a Drafter proposed and a step computed
	Accepted  int           // number of drafted tokens that Next chose
	Prefill   time.Duration // time from the start to the first logits
	Decode    time.Duration // time from the first logits to the end
	Waited    time.Duration // time in the queue
	Shifts    int           // times that the sequence was full and its middle was dropped
}

// Options configure a scheduler.
type Options struct {
	Context int // tokens of one sequence
	Rows    int // rows of a batch
	Outputs int // output rows of a batch
	Vocab   int // width of an output row
	// MaxStep limits the time of a step while a job generates. Prompts then get
	// as many rows as fit, judging by the speed of earlier steps. Results do
	// not depend on it. 0 means no limit.
	MaxStep time.Duration
	// Splice is the number of tokens from which on a part of a prompt that a slot holds at another
	// position is copied from there. 0 copies nothing.
	Splice int
	// SingleRows is set if the device has separate kernels for single rows. Each draft row is then
	// a span of its own.
	SingleRows bool
	// Queue is the largest number of jobs that wait for a slot. 0 means no
	// limit.
	Queue int
	// StateModel is set if sequences can rewind to checkpoints only.
	StateModel bool
	// Shift drops the middle of a full sequence instead of ending its job.
	// Rotary describes, for each layer, the RoPE of the keys to be moved. If it
	// is nil, the keys are computed again.
	Shift  bool
	Rotary []layout.Rotary
	// Prefixes stores what slots have read; nil for no store. Origin covers
	// everything that determines what the bytes of a sequence mean. Unkept is
	// called with the reason if the device cannot export or import them; it may
	// be nil.
	Prefixes *prefix.Store
	Origin   prefix.Origin
	Unkept   func(error)
	Reused   func(Stats) // called with how much of a prompt is reused; may be nil
	Observe  func(Step)  // called after every step; may be nil
	Ended    func()      // called on the scheduler's goroutine when a job ends; may be nil
}

// Sched is a running scheduler.
type Sched struct {
	o     Options
	prog  backend.Program
	cache *pages.Cache
	ops   chan func()
	wake  chan struct{} // signalled when a context ends
	quit  chan struct{}
	once  sync.Once
	ended sync.WaitGroup
	apart sync.WaitGroup // calls of Next outside the loop

	// Owned by the loop.
	slots   []slot
	queue   []*task
	chunks  []chunk // chunks of the step
	room    room    // remaining capacity of the step
	pace    pace
	batch   llm.Batch
	logits  []float32
	rows    []rowUse
	coords  []llm.Coord // coords, embds and sees are used only for pictures
	embds   [][]float32
	sees    []int32
	clock   uint64
	admit   uint64
	stepped []int
	decoder int           // slot whose row comes first in the next step
	reader  int           // slot whose prompt comes first in the next step
	hold    bool          // the cells ran out, and no job starts until one ends
	starved bool          // decode rows left no room for prompts in the last step
	claims  []pages.Claim // claims of the jobs in slots
	choices int           // calls of Next outside the loop whose results have not arrived

	fetching int // number of jobs whose pages are being read from the store outside the loop

	view view // copied after every change, for readers that must not wait
}

// task is a job in the queue or in a slot.
type task struct {
	Job
	ctx      context.Context
	tokens   []llm.Token // the prompt, then the generated tokens
	read     int         // number of tokens that are read as a prompt
	diverges int         // position where the prompt diverges from another text that slots held
	order    uint64      // order of admission; newer jobs make room for older ones
	stats    Stats
	// promised is the length that an open job may reach without a new check, while it has a slot.
	// It is 0 without a slot.
	promised int
	queued   time.Time
	started  time.Time
	first    time.Time
	chooses  bool        // Next runs outside the loop
	unwatch  func() bool // stops watching ctx; the end of ctx wakes the loop
	logits   []float32   // logits for that call of Next
	draft    []llm.Token // draft tokens that follow tokens
	drafts   int         // most draft tokens of the next step
	picks    []pick      // choices made outside the loop

	splices  []splice  // parts of the prompt that are copied from other slots, ascending
	stops    []int     // positions of the prompt, ascending, at which a chunk ends and is kept
	evicted  time.Time // time when the store dropped the page after the part of the prompt that it has
	alike    int       // number of leading prompt tokens that slots or the store have
	looked   bool      // the store was searched for the prompt
	fetching bool      // pages of the prompt are being read from the store
	taken    *taken    // pages read from the store, until the job has a slot

	elsewhere prefix.Elsewhere // beginning of the prompt that is stored for another model or cache
}

// slot is a sequence of the cache and the job that uses it, if any.
type slot struct {
	seq    llm.Seq
	tokens []llm.Token // tokens whose cells the slot holds
	task   *task
	used   uint64

	salt    string // salt of the job that filled it
	private bool   // nothing of the slot is shared or kept
	copied  bool   // the cells do not belong to the tokens
	prompt  int    // tokens of the last job's prompt
	drafted int    // rows of the step that hold drafted tokens
	chain   chain

	mixed int // first token that was computed after text that a shift has dropped; 0 for none
}

// rowUse identifies the output that a batch row belongs to.
type rowUse struct {
	slot int
	pos  int
	last bool
}

// New starts a scheduler over a compiled program.
func New(prog backend.Program, cache *pages.Cache, o Options) *Sched {
	s := &Sched{
		o: o, prog: prog, cache: cache,
		ops: make(chan func()), wake: make(chan struct{}, 1), quit: make(chan struct{}),
		logits: make([]float32, o.Outputs*o.Vocab),
	}
	for i := range cache.Seqs() {
		s.slots = append(s.slots, slot{seq: llm.Seq(i)})
	}
	if o.Prefixes != nil {
		o.Prefixes.Know(o.Origin)
	}
	s.publish()
	s.ended.Add(1)
	go s.loop()
	return s
}

// Close ends all jobs with ErrClosed and waits for the loop.
func (s *Sched) Close() {
	s.once.Do(func() { close(s.quit) })
	s.ended.Wait()
}

// Do runs f on the goroutine that owns the device, between two steps, and
// waits for it.
func (s *Sched) Do(ctx context.Context, f func()) error { return s.do(ctx, f) }

// do runs f on the loop's goroutine and waits for it.
func (s *Sched) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case s.ops <- func() { f(); s.publish(); close(done) }:
	case <-s.quit:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	return nil
}

// Submit queues all of the jobs or none. If and only if it returns nil, the
// Done of each job is called exactly once. The jobs end early when ctx ends.
func (s *Sched) Submit(ctx context.Context, jobs ...Job) error {
	tasks := make([]*task, len(jobs))
	for i, j := range jobs {
		n := len(j.Prompt)
		if n == 0 {
			return errors.New("the prompt is empty")
		}
		if most := s.capacity(); n > most || n == most && j.Next != nil {
			return &TooLong{n, most}
		}
		if j.Slot >= len(s.slots) {
			return fmt.Errorf("%w %d of %d", ErrSlot, j.Slot, len(s.slots))
		}
		if err := s.checkTiles(&j); err != nil {
			return err
		}
		t := &task{Job: j, ctx: ctx, tokens: append([]llm.Token(nil), j.Prompt...), queued: time.Now()}
		t.stats.Prompt, t.read = n, n
		t.stops = s.stopsOf(t)
		tasks[i] = t
	}
	full := false
	err := s.do(ctx, func() {
		if n := len(s.queue); s.o.Queue > 0 && n > 0 && n+len(tasks) > s.o.Queue {
			full = true
			return
		}
		for _, t := range tasks {
			t.unwatch = context.AfterFunc(ctx, s.rouse)
		}
		s.queue = append(s.queue, tasks...)
	})
	if err == nil && full {
		return fmt.Errorf("%w: %d", ErrBusy, s.o.Queue)
	}
	return err
}

// rouse wakes the loop so that it checks the contexts of its jobs.
func (s *Sched) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// end reports the end of a task to its job.
func (t *task) end(f Finish, err error) {
	t.unwatch()
	t.Done(f, t.stats, err)
}

// capacity returns the largest number of tokens of a sequence that has all cells.
func (s *Sched) capacity() int {
	cells := s.cache.Layout().Settings.Cells
	return min(s.o.Context, (cells+kv.PageCells-1)/kv.PageCells*kv.PageCells)
}

// loop runs on the goroutine that owns the device.
func (s *Sched) loop() {
	defer s.ended.Done()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waits := false
	for {
		if waits || s.idle() {
			select {
			case f := <-s.ops:
				f()
			case <-s.wake:
			case <-s.quit:
				s.abort()
				return
			}
		}
		for more := true; more; {
			select {
			case f := <-s.ops:
				f()
			case <-s.quit:
				s.abort()
				return
			default:
				more = false
			}
		}
		s.cancel()
		s.assignSlots()
		s.publish()
		waits = !s.work()
		s.publish()
	}
}

// work runs a step and copies some pieces from the slots into the prefix store. It returns false if
// there is nothing to do until work outside the loop has finished.
func (s *Sched) work() bool {
	if s.step() {
		s.keepSome(1)
		return true
	}
	return s.keepSome(1) || s.choices+s.fetching == 0
}

// idle reports whether there is nothing to do until the next call.
func (s *Sched) idle() bool {
	if len(s.queue) > 0 {
		return false
	}
	for i := range s.slots {
		if s.slots[i].task != nil {
			return false
		}
	}
	return !s.keepSome(1)
}

// abort ends all jobs.
func (s *Sched) abort() {
	s.apart.Wait()
	for i := range s.slots {
		s.flush(i)
	}
	for i := range s.slots {
		if s.slots[i].task != nil {
			s.finish(i, Failed, ErrClosed)
		}
	}
	for _, t := range s.queue {
		t.end(Failed, ErrClosed)
	}
	s.queue = nil
}

// cancel ends the jobs whose context has ended, including jobs in the queue.
func (s *Sched) cancel() {
	for i := range s.slots {
		if t := s.slots[i].task; t != nil && !t.chooses && t.ctx.Err() != nil {
			s.finish(i, Failed, t.ctx.Err())
		}
	}
	kept := s.queue[:0]
	for _, t := range s.queue {
		if err := t.ctx.Err(); err != nil {
			t.end(Failed, err)
			continue
		}
		kept = append(kept, t)
	}
	clear(s.queue[len(kept):])
	s.queue = kept
}

// finish ends the job of a slot. Its cells stay for reuse, except those after text that a
// shift has dropped.
func (s *Sched) finish(i int, f Finish, err error) {
	s.retract(i)
	sl := &s.slots[i]
	t := sl.task
	sl.task, sl.chain.dirty = nil, true
	s.hold = false
	s.clock++
	sl.used = s.clock
	if t.first.IsZero() {
		t.stats.Prefill = time.Since(t.started)
	} else {
		t.stats.Decode = time.Since(t.first)
	}
	if sl.mixed > 0 && (t.stats.Spliced == 0 || t.stats.Shifts > 0) {
		s.cut(i, sl.mixed)
	}
	t.splices = nil
	if s.o.StateModel && err == nil {
		err = s.cache.Checkpoint(sl.seq)
	}
	var stray *backend.NotNumbers
	switch {
	case errors.Is(err, sample.ErrLogits) || errors.As(err, &stray): // the tokens that led to these logits are not reused
		s.disown(i)
	case sl.private:
		s.forget(i)
	case s.o.Prefixes != nil:
		t.stats.TextKey = s.textKey(i)
	}
	if s.o.Ended != nil {
		s.o.Ended()
	}
	s.view.counted = time.Time{}
	s.publish()
	t.end(f, err)
}
