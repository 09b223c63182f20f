package eval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"godwit/engine"
	"godwit/engine/kv"
)

// Task is a measurement of the lab.
type Task string

// The tasks, in the order in which a pair goes through them.
const (
	TaskKLD    Task = "kld" // and perplexity
	TaskAgree  Task = "agree"
	TaskCopy   Task = "copy"
	TaskNeedle Task = "needle"
	TaskArith  Task = "arith"
	TaskTurns  Task = "turns"
	TaskSpeed  Task = "speed"
)

// Tasks lists all tasks.
func Tasks() []Task {
	return []Task{TaskKLD, TaskAgree, TaskCopy, TaskNeedle, TaskArith, TaskTurns, TaskSpeed}
}

// Size is how much is measured.
type Size struct {
	Window      int // tokens of a chunk of text
	Chunks      int
	Every       int   // of how many predictions one is compared; 0: all are
	Agree       int   // tokens fed one at a time
	AgreeBehind int   // tokens read before them
	Distances   []int // of copied texts, in tokens
	CopyItems   int
	Lengths     []int // of haystacks, in tokens
	Depths      []float64
	Shared      bool // the facts of all depths in one text only, not in one each too
	Trials      int
	Sums        int
	SumDepths   []int // tokens of text before the sums
	Runs        int   // of a sum that has to be the same each time
	Turns       int
	TurnTokens  int
	SpeedDepths []int
	SpeedPrompt int
	SpeedGen    int
	SpeedRuns   int
}

// Quick is a size for a look: minutes on a small model.
func Quick() Size {
	return Size{
		Window: 512, Chunks: 2, Agree: 192, Distances: []int{200, 600}, CopyItems: 8,
		Lengths: []int{512, 1024}, Depths: []float64{0, 0.5, 1}, Trials: 1, Sums: 9, SumDepths: []int{0}, Runs: 10,
		Turns: 4, TurnTokens: 24, SpeedDepths: []int{0, 1024}, SpeedPrompt: 128, SpeedGen: 16, SpeedRuns: 1,
	}
}

// Full is a size whose figures can be quoted.
func Full() Size {
	return Size{
		Window: 512, Chunks: 8, Agree: 1024, Distances: []int{200, 500, 1000, 2000, 4000}, CopyItems: 12,
		Lengths: []int{512, 1024, 2048, 4096}, Depths: []float64{0, 0.25, 0.5, 0.75, 1}, Trials: 2, Sums: 60, SumDepths: []int{0}, Runs: 10,
		Turns: 10, TurnTokens: 64, SpeedDepths: []int{0, 1024, 4096}, SpeedPrompt: 256, SpeedGen: 32, SpeedRuns: 3,
	}
}

// fit drops what a model's context cannot hold.
func (s Size) fit(context int) Size {
	holds := func(extra int) func(int) bool { return func(n int) bool { return n+extra > context } }
	s.Window, s.Agree = min(s.Window, context), min(s.Agree, context)
	s.AgreeBehind = min(s.AgreeBehind, context-s.Agree)
	s.Distances = slices.DeleteFunc(slices.Clone(s.Distances), holds(640))
	s.Lengths = slices.DeleteFunc(slices.Clone(s.Lengths), holds(64))
	s.SumDepths = slices.DeleteFunc(slices.Clone(s.SumDepths), holds(sumTokens))
	s.SpeedDepths = slices.DeleteFunc(slices.Clone(s.SpeedDepths), holds(s.SpeedPrompt+s.SpeedGen+2))
	return s
}

// context is the most tokens that the tasks need in one sequence.
func (s *Size) context() int {
	n := max(s.Window, s.Agree+s.AgreeBehind, 512, s.Turns*(s.TurnTokens+48)+256)
	for _, d := range s.Distances {
		n = max(n, d+640)
	}
	for _, l := range s.Lengths {
		n = max(n, l+64)
	}
	for _, d := range s.SumDepths {
		n = max(n, d+sumTokens)
	}
	for _, d := range s.SpeedDepths {
		n = max(n, d+s.SpeedPrompt+s.SpeedGen+2)
	}
	return n
}

// weight is about how much of the time a task takes.
func (s *Size) weight(t Task) float64 {
	switch t {
	case TaskKLD:
		return float64(s.Window * s.Chunks)
	case TaskAgree:
		return float64(4*s.Agree + s.AgreeBehind)
	case TaskCopy:
		n := 0
		for _, d := range s.Distances {
			n += d + s.CopyItems*120
		}
		return float64(n)
	case TaskNeedle:
		n := 0
		texts := len(s.Depths) + 1
		if s.Shared {
			texts = 1
		}
		for _, l := range s.Lengths {
			n += (l*texts + 100*len(s.Depths)) * s.Trials
		}
		return float64(n)
	case TaskArith:
		n := 0
		for _, d := range s.SumDepths {
			n += d + 60*(s.Sums+3*s.Runs)
		}
		return float64(n)
	case TaskTurns:
		return float64(2 * s.Turns * (5*s.TurnTokens + 30))
	}
	n := 0
	for _, d := range s.SpeedDepths {
		n += (s.SpeedRuns + 1) * (2*d + s.SpeedPrompt + 5*s.SpeedGen)
	}
	return float64(n)
}

// Cell is one task for one pair of types. One of the results is set, or Note
// says why none could be had.
type Cell struct {
	Key     string        `json:"key"`
	Task    Task          `json:"task"`
	K       string        `json:"type_k"`
	V       string        `json:"type_v"`
	Seconds float64       `json:"seconds"`
	Note    string        `json:"note,omitempty"`
	KLD     *KLDResult    `json:"kld,omitempty"`
	Agree   *AgreeResult  `json:"agree,omitempty"`
	Copy    *CopyResult   `json:"copy,omitempty"`
	Needle  *NeedleResult `json:"needle,omitempty"`
	Arith   *ArithResult  `json:"arith,omitempty"`
	Turns   *TurnsResult  `json:"turns,omitempty"`
	Speed   *SpeedResult  `json:"speed,omitempty"`
	Choices []Choice      `json:"choices,omitempty"` // of the base, for agreement
}

// Progress is how far a lab is.
type Progress struct {
	Task  Task
	Pair  kv.Pair
	Share float64       // of everything, from 0 to 1
	Left  time.Duration // about; 0 while nothing is known
}

// Lab measures pairs of cache types on one model.
type Lab struct {
	Open    Opener
	Context int    // the model's own, in tokens
	Text    string // to measure on
	Setup   string // whatever else decides a result: program, device, arithmetic, policies
	// Base opens f16 where it is what pairs are compared with, without the
	// settings under measurement, and BaseSetup is its Setup. nil: Open does.
	Base      Opener
	BaseSetup string
	Size      Size
	Store     Results // where finished cells are kept
	Fresh     bool    // measure finished cells again
	// SkipUnable leaves copy, needle and sums that are not repeated out of pairs
	// where f16 itself is under the floor.
	SkipUnable bool
	// Progress is called with the share that is done; may be nil.
	Progress func(Progress)

	base map[Task]Cell
	goal struct{ total, done float64 }
	from time.Time
}

// basePair is what every pair is compared with.
var basePair = kv.Pairs()[0]

// subject is what a cell is about: a pair, or what all pairs are compared with.
type subject struct {
	kv.Pair
	base bool
}

// plain reports whether f16 among the pairs is the base itself: where no
// setting makes it something else.
func (l *Lab) plain() bool { return l.Base == nil || l.BaseSetup == l.Setup }

// of is the subject of a pair.
func (l *Lab) of(p kv.Pair) subject { return subject{p, p == basePair && l.plain()} }

// key names a cell by everything that its result depends on.
func (l *Lab) key(t Task, s subject) string {
	text := sha256.Sum256([]byte(l.Text))
	setup := l.Setup
	if s.base && l.Base != nil {
		setup = l.BaseSetup
	}
	skip := l.skips(t) && !s.base
	b, err := json.Marshal([]any{"cell 4", t, s.Pair, s.base, skip, l.Size, text[:], setup})
	if err != nil {
		panic("eval: " + err.Error()) // plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// Run measures tasks for pairs. f16 comes first, whether it is among the pairs
// or not. Cells finished before are taken from the store; each new one is
// kept there at once.
func (l *Lab) Run(ctx context.Context, tasks []Task, pairs []kv.Pair) ([]Cell, error) {
	l.Size = l.Size.fit(l.Context)
	l.base, l.from = map[Task]Cell{}, time.Now()
	l.goal.total, l.goal.done = 0, 0
	all := []subject{{basePair, true}}
	for _, p := range pairs {
		if s := l.of(p); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	var cells []Cell
	todo := make([][]Task, len(all))
	for i, s := range all {
		for _, t := range tasks {
			c, ok, err := l.Store.Cell(l.key(t, s))
			if err != nil {
				return nil, err
			}
			if !ok || l.Fresh {
				todo[i] = append(todo[i], t)
				l.goal.total += l.Size.weight(t)
				continue
			}
			cells = append(cells, c)
			if i == 0 {
				l.base[t] = c
			}
		}
	}
	if err := l.keepBase(todo); err != nil {
		return nil, err
	}
	for i, s := range all {
		got, err := l.subject(ctx, s, todo[i])
		cells = append(cells, got...)
		if err != nil {
			return cells, fmt.Errorf("%v: %w", s.Pair, err)
		}
	}
	if !l.plain() && slices.Contains(pairs, basePair) { // two of one name: the base is not asked for
		cells = slices.DeleteFunc(cells, func(c Cell) bool { return c.Key == l.key(c.Task, all[0]) })
	}
	order := func(c Cell) int {
		i := slices.IndexFunc(all, func(s subject) bool { return c.Key == l.key(c.Task, s) })
		return i*16 + slices.Index(Tasks(), c.Task)
	}
	slices.SortStableFunc(cells, func(a, b Cell) int { return order(a) - order(b) })
	return cells, nil
}

// Known returns the cells of tasks and pairs that are finished.
func (l *Lab) Known(tasks []Task, pairs []kv.Pair) ([]Cell, error) {
	l.Size = l.Size.fit(l.Context)
	var cells []Cell
	for _, p := range pairs {
		for _, t := range tasks {
			c, ok, err := l.Store.Cell(l.key(t, l.of(p)))
			if err != nil {
				return nil, err
			}
			if ok {
				cells = append(cells, c)
			}
		}
	}
	return cells, nil
}

// basePath is the file with f16's log-probabilities.
func (l *Lab) basePath() string {
	return filepath.Join(l.Store.Dir, "base-"+l.key(TaskKLD, subject{basePair, true}))
}

// keepBase sees to it that f16's log-probabilities are made again where a pair
// needs them and an earlier run has thrown them away.
func (l *Lab) keepBase(todo [][]Task) error {
	needed := slices.ContainsFunc(todo[1:], func(t []Task) bool { return slices.Contains(t, TaskKLD) })
	if !needed || slices.Contains(todo[0], TaskKLD) {
		return nil
	}
	b, err := OpenBase(l.basePath())
	switch {
	case err == nil:
		return b.Close()
	case !errors.Is(err, ErrBase) && !errors.Is(err, os.ErrNotExist):
		return err
	}
	todo[0] = append([]Task{TaskKLD}, todo[0]...)
	l.goal.total += l.Size.weight(TaskKLD)
	return nil
}

// staleBase is when log-probabilities that nobody has taken along are no longer
// those of a run under way.
const staleBase = 24 * time.Hour

// Close removes f16's log-probabilities, and what runs that were killed have
// left of them: they are large and quickly made again.
func (l *Lab) Close() error {
	files, err := os.ReadDir(l.Store.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		own := strings.HasPrefix(f.Name(), filepath.Base(l.basePath()))
		if !own && strings.HasPrefix(f.Name(), "base-") {
			info, infoErr := f.Info()
			own = infoErr == nil && time.Since(info.ModTime()) > staleBase
		}
		if own {
			err = errors.Join(err, os.Remove(filepath.Join(l.Store.Dir, f.Name())))
		}
	}
	return err
}

// subject opens the model with one pair and runs the tasks that are left.
func (l *Lab) subject(ctx context.Context, p subject, tasks []Task) ([]Cell, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	if err := l.Store.Try(); err != nil {
		return nil, fmt.Errorf("nothing is measured, since it could not be kept: %w", err)
	}
	open := l.Open
	if p.base && l.Base != nil {
		open = l.Base
	}
	e, err := open(ctx, p.K, p.V, min(l.Size.context(), l.Context))
	if err != nil {
		return nil, err
	}
	defer e.Close()
	var cells []Cell
	for _, t := range tasks {
		start := time.Now()
		c := Cell{Key: l.key(t, p), Task: t, K: p.K, V: p.V}
		weight := l.Size.weight(t)
		_, before, err := broken(ctx, e, nil)
		if err == nil {
			err = l.measure(ctx, e, &c, p.base, func(share float64) { l.tell(t, p.Pair, weight*share) })
		}
		if layer, _, askErr := broken(ctx, e, before); err == nil && (layer >= 0 || askErr != nil) {
			err = errors.Join(&NaN{Layer: layer, Rows: true}, askErr)
		}
		if err != nil {
			return cells, Locate(ctx, open, fmt.Errorf("%s: %w", t, err), p.K, p.V)
		}
		c.Seconds = time.Since(start).Seconds()
		l.goal.done += weight
		if p.base {
			l.base[t] = c
		}
		if err := l.Store.Keep(&c); err != nil {
			return cells, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// enough is the share of the work from which the time of the rest can be told.
const enough = 0.01

// tell reports progress within a task.
func (l *Lab) tell(t Task, p kv.Pair, part float64) {
	if l.Progress == nil {
		return
	}
	s := Progress{Task: t, Pair: p, Share: (l.goal.done + part) / l.goal.total}
	if s.Share >= enough {
		s.Left = time.Duration(float64(time.Since(l.from)) * (1 - s.Share) / s.Share)
	}
	l.Progress(s)
}

// skips reports whether a task may be left out. Sums that are repeated count for
// every model: their answers have to be the same.
func (l *Lab) skips(t Task) bool {
	return l.SkipUnable && (t == TaskCopy || t == TaskNeedle || t == TaskArith && l.Size.Runs < 2)
}

// lacks says why a task cannot be measured, or is not worth it.
func (l *Lab) lacks(t Task, isBase bool) string {
	s := &l.Size
	short := t == TaskCopy && len(s.Distances) == 0 || t == TaskNeedle && len(s.Lengths) == 0 || t == TaskArith && len(s.SumDepths) == 0
	switch {
	case short:
		return fmt.Sprintf("a context of %d tokens is too short for this task", l.Context)
	case l.skips(t) && !isBase:
		return l.base[t].Note
	}
	return ""
}

// measure fills a cell.
func (l *Lab) measure(ctx context.Context, e *engine.Engine, c *Cell, isBase bool, progress func(float64)) (err error) {
	s := &l.Size
	if c.Note = l.lacks(c.Task, isBase); c.Note != "" {
		return nil
	}
	base := l.base[c.Task]
	note := func(own Share) string {
		if isBase {
			return tooSmall(own)
		}
		return base.Note
	}
	switch c.Task {
	case TaskKLD:
		c.KLD, err = l.kld(ctx, e, isBase, progress)
	case TaskAgree:
		err = l.agree(ctx, e, c, base.Choices, isBase, progress)
	case TaskCopy:
		var r CopyResult
		r, err = Copy(ctx, e, s.Distances, s.CopyItems, progress)
		r.Note = note(r.Share)
		c.Copy, c.Note = &r, r.Note
	case TaskNeedle:
		var r NeedleResult
		r, err = Needle(ctx, e, s.Lengths, s.Depths, s.Shared, s.Trials, progress)
		r.Note = note(r.Share)
		c.Needle, c.Note = &r, r.Note
	case TaskArith:
		var r ArithResult
		r, err = Arith(ctx, e, s.SumDepths, s.Sums, s.Runs, progress)
		r.Note = note(r.Share)
		c.Arith, c.Note = &r, r.Note
	case TaskTurns:
		var answers []Turn
		if base.Turns != nil && !isBase {
			answers = base.Turns.Answers
		}
		var r TurnsResult
		r, err = Turns(ctx, e, s.Turns, s.TurnTokens, answers, progress)
		c.Turns = &r
	case TaskSpeed:
		var r SpeedResult
		r, err = Speed(ctx, e, s.SpeedDepths, s.SpeedPrompt, s.SpeedGen, s.SpeedRuns, progress)
		c.Speed = &r
	default:
		err = fmt.Errorf("no task %q", c.Task)
	}
	return err
}

// kld measures divergence and perplexity; f16's run is stored for the others.
func (l *Lab) kld(ctx context.Context, e *engine.Engine, isBase bool, progress func(float64)) (*KLDResult, error) {
	tok, err := e.Tokenizer()
	if err != nil {
		return nil, err
	}
	tokens := tok.EncodeText(l.Text, true, false)
	w := Window{Context: l.Size.Window, Chunks: l.Size.Chunks, Every: l.Size.Every, BOS: tok.BOS(), AddBOS: tok.AddBOS(), Progress: progress}
	if isBase {
		if err := os.MkdirAll(l.Store.Dir, 0o755); err != nil {
			return nil, err
		}
		p, err := SaveBase(ctx, l.basePath(), e, tokens, w)
		if err != nil {
			return nil, err
		}
		return &KLDResult{Top1: 1, TopP: 1, Perplexity: p.Perplexity, BasePPL: p.Perplexity, Tokens: p.Tokens, TypeK: p.TypeK, TypeV: p.TypeV}, nil
	}
	b, err := OpenBase(l.basePath())
	if err != nil {
		return nil, err
	}
	r, err := KLDFrom(ctx, b, e, tokens, w)
	return &r, errors.Join(err, b.Close())
}

// agree measures the agreement of choices with f16's.
func (l *Lab) agree(ctx context.Context, e *engine.Engine, c *Cell, base []Choice, isBase bool, progress func(float64)) error {
	tok, err := e.Tokenizer()
	if err != nil {
		return err
	}
	tokens := tok.EncodeText(l.Text, true, false)
	n := l.Size.AgreeBehind + l.Size.Agree
	if len(tokens) < n {
		return fmt.Errorf("%w: %d tokens, wanted %d", ErrShort, len(tokens), n)
	}
	got, err := Choices(ctx, e, tokens[:n], l.Size.AgreeBehind, progress)
	if err != nil {
		return err
	}
	if isBase {
		c.Choices, base = got, got
	}
	if len(base) != len(got) {
		return fmt.Errorf("%d choices of f16, %d of this pair", len(base), len(got))
	}
	r := Agree(base, got)
	r.TypeK, r.TypeV = Types(e)
	c.Agree = &r
	return nil
}
