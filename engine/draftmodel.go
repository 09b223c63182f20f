package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"godwit/engine/draft"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// Draft selects a smaller model with the same vocabulary. It proposes tokens, and one step
// of the model verifies several of them. The answers do not change.
type Draft struct {
	Path string      // its file; empty: none
	Want layout.Want // its cache types; nil types: f16
}

// ErrDraft is the class of errors about draft models that cannot be used.
var ErrDraft = errors.New("unusable draft model")

// draftError wraps an error about a draft model.
func draftError(path string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrDraft, path, err)
}

// forDraft returns the options of the draft model of a load with a context.
func (o *Options) forDraft(ctx int) Options {
	return Options{
		Driver: o.Driver, Device: o.Device, GPULayers: o.GPULayers, Threads: o.Threads, NoRepack: o.NoRepack, NoMMap: o.NoMMap, Lock: o.Lock,
		Unchecked: o.Unchecked, FloatAttn: o.FloatAttn, Context: ctx, Cells: o.Cells, Parallel: o.Parallel, UBatch: o.UBatch, MaxStep: -1,
		Want: o.Draft.Want, Calibrations: o.Calibrations, NoCalibration: o.NoCalibration, MMProj: NoProjector,
		Log: o.Log, Memory: o.Memory,
	}
}

// checkDraft reports why a model cannot propose tokens for m, such as another vocabulary.
func (m *Model) checkDraft(path string) error {
	d, err := OpenModel(path)
	if err != nil {
		return draftError(path, err)
	}
	err = m.comparable(d)
	if err = errors.Join(err, d.Close()); err != nil {
		return draftError(path, err)
	}
	return nil
}

// comparable compares the vocabulary of a draft model, token by token. The longer of the
// two may have more tokens at the end, because many models pad theirs.
func (m *Model) comparable(d *Model) error {
	if c := d.Config(); c.Embedding || c.Encoder || c.Whole {
		return errors.New("it does not generate text")
	}
	ours, err := m.Tokenizer()
	if err != nil {
		return err
	}
	theirs, err := d.Tokenizer()
	if err != nil {
		return err
	}
	for t := range llm.Token(min(ours.VocabSize(), theirs.VocabSize())) {
		if a, b := ours.Text(t), theirs.Text(t); a != b {
			return fmt.Errorf("it has another vocabulary: token %d is %q, and %q in the model", t, b, a)
		}
	}
	if a, b := ours.VocabSize(), theirs.VocabSize(); max(a, b)-min(a, b) > max(a, b)/20 {
		return fmt.Errorf("it has another vocabulary: %d tokens, and %d in the model", b, a)
	}
	return nil
}

// drafting is a loaded draft model; nil if a model has no draft model.
type drafting struct {
	*Engine
	costs draft.Costs
}

// openDraft loads the draft model of a load, if there is one.
func (x *opened) openDraft(ctx context.Context, o *Options, length int) (*drafting, error) {
	path := o.Draft.Path
	if path == "" || x.model.Config().Embedding {
		return nil, nil
	}
	e, err := Open(ctx, path, o.forDraft(length))
	if err != nil {
		return nil, draftError(path, err)
	}
	if ours, theirs := x.model.File.Size(), e.model.File.Size(); theirs >= ours {
		x.log.Warn("the draft model is not smaller than the model, so drafts gain nothing", "bytes", theirs, "model_bytes", ours)
	}
	return &drafting{Engine: e}, nil
}

// close frees the draft model.
func (d *drafting) close() error {
	if d == nil {
		return nil
	}
	return d.Close()
}

// observe returns a function that measures the steps of the model, and then calls f.
func (d *drafting) observe(f func(sched.Step)) func(sched.Step) {
	if d == nil {
		return f
	}
	return func(s sched.Step) {
		if s.Prefill == 0 {
			d.costs.Step(s.Decode, s.Took)
		}
		if f != nil {
			f(s)
		}
	}
}

// forget deletes the texts that the draft model has read, except those of running
// requests.
func (d *drafting) forget(ctx context.Context) error {
	if d == nil {
		return nil
	}
	var errs []error
	for i := range d.p.Options.Parallel {
		if _, err := d.EraseSlot(ctx, i); err != nil && !errors.Is(err, sched.ErrSlot) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// drafter returns the drafter of a request.
func (d *drafting) drafter(r *Request) sched.Drafter {
	from := &continuation{e: d.Engine, salt: r.Salt}
	return &draftOf{Model: draft.Model{From: from, Costs: &d.costs}, from: from, private: r.Private}
}

// draftOf is the drafter of one request.
type draftOf struct {
	draft.Model
	from    *continuation
	private bool
}

// end deletes the text of a private request.
func (d *draftOf) end() {
	if !d.private {
		return
	}
	for _, slot := range d.from.slots {
		_, _ = d.from.e.EraseSlot(context.Background(), slot) // it fails only if the text is gone: another request uses the slot, or the model is being closed
	}
}

// readAhead is the largest number of tokens that a draft model reads at once, so that
// other requests do not wait until it has read a long prompt. It reads few tokens
// together with its first proposal.
const (
	readAhead = 256
	few       = 16
)

// continuation continues the text of one request with a draft model.
type continuation struct {
	e     *Engine
	salt  string
	read  []llm.Token // the text that the model has read
	slots []int       // slots that have held it
}

// Read implements draft.Continuer.
func (c *continuation) Read(tokens []llm.Token) bool {
	same := c.common(tokens)
	if len(tokens)-same <= few {
		return true
	}
	n := min(same+readAhead, len(tokens)-1)
	c.run(tokens[:n], same, sched.Job{
		Want: func(int) bool { return false }, Row: func(int, []float32) error { return nil },
	})
	return n == len(tokens)-1
}

// Continue implements draft.Continuer.
func (c *continuation) Continue(tokens []llm.Token, next func(t llm.Token, p float64) bool) {
	c.run(tokens, c.common(tokens), sched.Job{Next: func(logits []float32) (llm.Token, bool, error) {
		t, p := likeliest(logits)
		more := next(t, p)
		if more {
			c.read = append(c.read, t)
		}
		return t, more, nil
	}})
}

// common returns how many leading tokens the model has read.
func (c *continuation) common(tokens []llm.Token) (n int) {
	for n < min(len(c.read), len(tokens)) && c.read[n] == tokens[n] {
		n++
	}
	return n
}

// run runs a job with a text, of which the model has read the first tokens. After an
// error, which only a model that is being closed or another length of context can cause,
// nothing counts as read.
func (c *continuation) run(tokens []llm.Token, same int, j sched.Job) {
	c.read = append(c.read[:same], tokens[same:]...)
	j.Prompt, j.Slot, j.Salt = slices.Clone(tokens), -1, c.salt
	done := make(chan struct{})
	j.Done = func(_ sched.Finish, s sched.Stats, err error) {
		if !slices.Contains(c.slots, s.Slot) {
			c.slots = append(c.slots, s.Slot)
		}
		if err != nil {
			c.read = c.read[:0]
		}
		close(done)
	}
	if err := c.e.submit(context.Background(), j); err != nil {
		c.read = c.read[:0]
		return
	}
	<-done
}

// likeliest returns the most likely token and its probability.
func likeliest(logits []float32) (llm.Token, float64) {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	const far = 20 // a term of e^-20 times the largest is negligible
	sum, least := 0.0, logits[best]-far
	for _, x := range logits {
		if x > least {
			sum += math.Exp(float64(x - logits[best]))
		}
	}
	return llm.Token(best), 1 / sum
}
