package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"godwit/engine"
	"godwit/engine/kv"
)

// subject opens the model with one pair and runs the remaining tasks.
func (l *Lab) subject(ctx context.Context, p subject, tasks []Task) ([]Cell, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	if err := l.Store.Try(); err != nil {
		return nil, fmt.Errorf("nothing was measured, because the result could not be saved: %w", err)
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

// enough is the share of the work from which the remaining time is estimated.
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

// skips reports whether a task may be left out. Repeated sums are never skipped,
// because every model must repeat its answers.
func (l *Lab) skips(t Task) bool {
	return l.SkipUnable && (t == TaskCopy || t == TaskNeedle || t == TaskArith && l.Size.Runs < 2)
}

// lacks returns the reason why a task cannot or need not be measured, or "".
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

// measure runs the task of a cell and stores its result in it.
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
		err = fmt.Errorf("there is no task %q", c.Task)
	}
	return err
}

// kld measures divergence and perplexity. f16's run is stored for the other
// pairs.
func (l *Lab) kld(ctx context.Context, e *engine.Engine, isBase bool, progress func(float64)) (*KLDResult, error) {
	tok, err := e.Model().Tokenizer()
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

// agree measures how often a pair makes the same choices as f16.
func (l *Lab) agree(ctx context.Context, e *engine.Engine, c *Cell, base []Choice, isBase bool, progress func(float64)) error {
	tok, err := e.Model().Tokenizer()
	if err != nil {
		return err
	}
	tokens := tok.EncodeText(l.Text, true, false)
	n := l.Size.AgreeBehind + l.Size.Agree
	if len(tokens) < n {
		return fmt.Errorf("%w: it has %d tokens, but %d are needed", ErrShort, len(tokens), n)
	}
	got, err := Choices(ctx, e, tokens[:n], l.Size.AgreeBehind, progress)
	if err != nil {
		return err
	}
	if isBase {
		c.Choices, base = got, got
	}
	if len(base) != len(got) {
		return fmt.Errorf("f16 chose %d tokens, but this pair chose %d", len(base), len(got))
	}
	r := Agree(base, got)
	r.TypeK, r.TypeV = Types(e)
	c.Agree = &r
	return nil
}
