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

	"godwit/engine/kv"
)

// Task is a measurement of the lab.
type Task string

// The tasks, in the order in which the lab runs them for a pair.
const (
	TaskKLD    Task = "kld" // KL divergence and perplexity
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

// Cell is one task for one pair of types. One of the results is set, or Note
// says why there is no result.
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
	Choices []Choice      `json:"choices,omitempty"` // choices of the base, for agreement
}

// Progress is the progress of a lab.
type Progress struct {
	Task  Task
	Pair  kv.Pair
	Share float64       // share of all work that is done, from 0 to 1
	Left  time.Duration // estimate of the remaining time; 0 if unknown
}

// Lab measures pairs of cache types on one model.
type Lab struct {
	Open    Opener
	Context int    // the model's context length, in tokens
	Text    string // text to measure on
	Setup   string // everything else that affects a result: program, device, arithmetic, policies
	// Base opens the f16 cache that pairs are compared with, without the
	// settings under measurement. BaseSetup is its Setup. If Base is nil, Open
	// is used.
	Base      Opener
	BaseSetup string
	Size      Size
	Store     Results // folder of finished cells
	Fresh     bool    // measure finished cells again
	// SkipUnable skips the tasks copy and needle, and sums that are not repeated,
	// for all pairs if f16 itself is below Floor.
	SkipUnable bool
	// Progress is called with the share that is done. It may be nil.
	Progress func(Progress)

	base map[Task]Cell
	goal struct{ total, done float64 }
	from time.Time
}

// basePair is the pair that all others are compared with.
var basePair = kv.Pairs()[0]

// subject is the subject of a cell: a pair, or the base that all pairs are
// compared with.
type subject struct {
	kv.Pair
	base bool
}

// plain reports whether f16 as one of the pairs is the same as the base, which
// is so unless a setting makes them differ.
func (l *Lab) plain() bool { return l.Base == nil || l.BaseSetup == l.Setup }

// of returns the subject of a pair.
func (l *Lab) of(p kv.Pair) subject { return subject{p, p == basePair && l.plain()} }

// key returns a name for a cell that contains everything its result depends on.
func (l *Lab) key(t Task, s subject) string {
	text := sha256.Sum256([]byte(l.Text))
	setup := l.Setup
	if s.base && l.Base != nil {
		setup = l.BaseSetup
	}
	skip := l.skips(t) && !s.base
	b, err := json.Marshal([]any{"cell 4", t, s.Pair, s.base, skip, l.Size, text[:], setup})
	if err != nil {
		panic("eval: " + err.Error()) // json.Marshal always succeeds for plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// Run measures tasks for pairs. f16 always comes first, even if it is not among
// the pairs. Finished cells are taken from the store, and new ones are stored
// at once.
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
	if !l.plain() && slices.Contains(pairs, basePair) { // both f16 subjects ran; only the one among the pairs is returned
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

// basePath returns the path of the file with f16's log-probabilities.
func (l *Lab) basePath() string {
	return filepath.Join(l.Store.Dir, "base-"+l.key(TaskKLD, subject{basePair, true}))
}

// keepBase adds a run of f16 if a pair needs its log-probabilities and an
// earlier run has deleted them.
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

// staleBase is the age from which a file of log-probabilities no longer counts
// as part of a run in progress.
const staleBase = 24 * time.Hour

// Close removes f16's log-probabilities, including files that killed runs left
// behind, because they are large and quickly computed again.
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
