package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"godwit/engine/chat"
	"godwit/engine/grammar"
	"godwit/engine/llm"
	"godwit/engine/sample"
	"godwit/engine/sched"
	"godwit/engine/tokenizer"
)

// maxStops limits the number of stop strings in a request, and maxStop the bytes of each.
const (
	maxStops = 64
	maxStop  = 1024
)

// Generate answers a request. Breaking out of the loop, or ending ctx, stops
// the work within one step. The last event has Kind End, unless the last pair
// is an error.
func (e *Engine) Generate(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		g, err := e.newGeneration(ctx, &r)
		if err == nil {
			if r.Notice != nil {
				for _, text := range g.verify.notices {
					r.Notice(text)
				}
			}
			if r.Queued != nil {
				r.Queued()
			}
			err = e.submit(ctx, g.job())
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		for {
			events, end := g.out.receive()
			for _, ev := range events {
				g.verify.see(&ev)
				if !yield(ev, nil) {
					return
				}
			}
			if end {
				if g.err != nil {
					yield(Event{}, g.err)
				}
				return
			}
		}
	}
}

// generation is a running request. Its methods run one at a time, on the
// scheduler's goroutine or, with a grammar, on a separate one. Only out is shared
// with the reader of the events.
type generation struct {
	r        *Request
	tok      *tokenizer.Tokenizer
	prompt   []llm.Token
	tiles    []sched.Tile // tiles of pictures in the prompt
	sampler  *sample.Sampler
	drafter  sched.Drafter
	replay   []llm.Token // tokens in place of sampled ones; nil: none
	replayed int         // number of tokens of replay already used
	state    *grammar.State
	mask     grammar.Bitmask
	probs    sample.Logprobs
	top      []sample.Logprob
	decoder  *tokenizer.Decoder
	stop     stopper
	end      string // the template's own stop string
	parts    splitter
	think    thinkEnd
	out      queue
	verify   verifier // only the reader of out uses it
	tokens   []llm.Token
	thought  int     // reasoning tokens among tokens
	sent     int     // tokens already sent in events
	pending  []Token // tokens that are not part of an event yet
	text     []byte
	finish   string
	over     bool // a second call began, but the request allows only one
	err      error
}

// newGeneration checks a request and prepares it.
func (e *Engine) newGeneration(ctx context.Context, r *Request) (*generation, error) {
	if e.Config().Embedding {
		return nil, ErrEmbedding
	}
	switch {
	case e.Config().Whole:
		return nil, ErrWhole
	case e.Config().Encoder && e.model.encoded == nil:
		return nil, ErrEncoder
	case e.p.Options.Hidden:
		return nil, errors.New("engine: opened for hidden rows, cannot generate")
	}
	tok, err := e.model.Tokenizer()
	if err != nil {
		return nil, err
	}
	g := &generation{r: r, tok: tok, parts: plain{}}
	var p *chat.Prompt
	if p, err = e.read(ctx, g); err != nil {
		return nil, err
	}
	g.decoder = tok.NewDecoder(r.Special || p != nil && r.Chat.marked(p))
	if len(g.prompt) == 0 {
		// A model needs at least one token, so BOS replaces an empty prompt.
		bos := tok.BOS()
		if bos < 0 {
			bos = tok.EOS()
		}
		if bos < 0 {
			return nil, fmt.Errorf("%w: the prompt is empty", ErrRequest)
		}
		g.prompt = []llm.Token{bos}
	}
	if g.stop, err = newStopper(r.Stop); err != nil {
		return nil, err
	}
	vocab := e.Config().Vocab
	if r.TopLogprobs < 0 || r.TopLogprobs > vocab || r.MaxTokens < 0 {
		return nil, fmt.Errorf("%w: the request has %d top logprobs and a limit of %d tokens; want 0 to %d, and 0 or more", ErrRequest, r.TopLogprobs, r.MaxTokens, vocab)
	}
	if r.IgnoreEOG {
		bias := make(map[llm.Token]float64, len(r.Sampling.LogitBias))
		for t, b := range r.Sampling.LogitBias {
			bias[t] = b
		}
		for _, t := range tok.EOG() {
			bias[t] = math.Inf(-1)
		}
		r.Sampling.LogitBias = bias
	}
	if g.sampler, err = sample.New(r.Sampling, vocab, tok.Piece); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	g.sampler.Prime(g.prompt)
	if g.drafter, err = e.drafter(r); err != nil {
		return nil, err
	}
	if e.p.Options.Replay != nil {
		g.replay = e.p.Options.Replay(ctx, g.prompt)
	}
	gr, err := e.shape(g, p)
	if err != nil {
		return nil, err
	}
	if gr != nil {
		if err := e.constrain(g, gr); err != nil {
			return nil, err
		}
	} else if p != nil && p.End != "" { // not with a grammar, because its text may contain p.End and the grammar decides where it ends
		g.stop.stops, g.end = append(g.stop.stops, []byte(p.End)), p.End
	}
	g.out.init()
	return g, nil
}

// read turns the prompt into tokens, and its pictures into rows.
func (e *Engine) read(ctx context.Context, g *generation) (*chat.Prompt, error) {
	a, err := e.model.parse(ctx, g.r)
	if err != nil {
		return nil, err
	}
	text, err := e.readPrompt(ctx, &a, g.r.Encoding)
	g.prompt, g.tiles = text.tokens, text.tiles
	return a.chat, err
}

// shape decides which parts the answer has and how to split it. It returns the
// grammar that enforces these parts, or nil.
func (e *Engine) shape(g *generation, p *chat.Prompt) (gr *grammar.Grammar, err error) {
	r := g.r
	gr = r.Grammar
	if p == nil || !r.Chat.RawParts {
		g.verify.document(gr)
	}
	if p != nil {
		g.verify.notices = append(p.Notices, g.verify.notices...)
		r.OneCall = r.OneCall || r.Chat.named()
		p.Form = gr != nil && gr.IsJSON()
		if gr, err = r.Chat.constraint(p, g.tok, gr, r.OneCall, &g.verify); err != nil {
			return nil, err
		}
		if gr != nil {
			r.spare(e.Context() - len(g.prompt))
		}
		if !r.Chat.RawParts {
			g.parts = parts{p.Parser(fmt.Sprint(g.sampler.Seed(), len(g.prompt)))}
		}
	}
	g.think = newThinkEnd(r, p)
	return gr, nil
}

// constrain compiles a grammar for the vocabulary.
func (e *Engine) constrain(g *generation, gr *grammar.Grammar) error {
	toks, err := e.grammarTokens()
	if err != nil {
		return err
	}
	c, err := grammar.Compile(gr, toks)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	g.state, g.mask = c.Start(), toks.NewMask()
	return nil
}

// vocabulary adapts a tokenizer to the grammar package.
type vocabulary struct {
	t    *tokenizer.Tokenizer
	size int
}

func (v vocabulary) Size() int { return v.size }

func (v vocabulary) Bytes(t llm.Token) []byte {
	if int(t) >= v.t.VocabSize() {
		return nil
	}
	return v.t.AppendPiece(nil, t, true)
}

func (v vocabulary) IsEOG(t llm.Token) bool { return int(t) < v.t.VocabSize() && v.t.IsEOG(t) }

// IsControl reports whether a token is a control token, which shows no text. The unknown
// token is not, because its name is not a control mark of the prompt format.
func (v vocabulary) IsControl(t llm.Token) bool {
	return int(t) >= v.t.VocabSize() || len(v.t.AppendPiece(nil, t, false)) == 0
}

// job is the request's job for the scheduler.
func (g *generation) job() sched.Job {
	slot := -1
	if g.r.Slot != nil {
		slot = *g.r.Slot
	}
	top := g.sampler.Top()
	if g.r.Logprobs || g.state != nil {
		top = 0 // probabilities cover all tokens, and a grammar may exclude the most likely ones
	}
	ends := borders(g.tok, g.prompt)
	return sched.Job{
		Prompt: g.prompt, Tiles: g.tiles, Fresh: g.r.Fresh, Slot: slot, Keep: g.r.Keep, Top: top, Most: g.r.MaxTokens,
		Borders: ends, Roles: roles(g.tok, g.prompt, ends), Salt: g.r.Salt, Private: g.r.Private,
		Drafter: g.drafter, Next: g.next, Done: g.done, Apart: g.state != nil, // computing a mask may take half a second
		Prefilled: func(done int, st *sched.Stats) {
			g.out.push(Event{Kind: Prefill, Slot: st.Slot, Done: done, Total: st.Prompt, FromDisk: st.FromDisk})
		},
	}
}

// next samples a token and emits its text.
func (g *generation) next(logits []float32) (llm.Token, bool, error) {
	var mask sample.Mask
	if g.state != nil {
		if err := g.state.Mask(g.mask); err != nil { // no token is allowed, or the grammar is too complex
			return 0, false, fmt.Errorf("%w: %w", ErrRequest, err)
		}
		mask = sample.Mask(g.mask)
	}
	if g.r.Logprobs {
		if err := g.probs.Read(logits, g.r.TopLogprobs); err != nil {
			return 0, false, err
		}
	}
	thinking := g.parts.thinking()
	t, inserted := g.think.next(g.tok, thinking, g.decoder.Held() == 0 && g.parts.held() == 0, g.thought)
	if !inserted {
		var err error
		if t, err = g.pick(logits, mask); err != nil {
			return 0, false, err
		}
	}
	g.tokens = append(g.tokens, t)
	if thinking && !inserted {
		g.thought++
	}
	if !inserted && g.tok.IsEOG(t) {
		g.finish = FinishStop
		return t, false, nil
	}
	if g.state != nil {
		if err := g.state.Accept(t); err != nil {
			return 0, false, fmt.Errorf("%w: %w", ErrMask, err)
		}
	}
	g.sampler.Accept(t)
	if err := g.say(t, thinking, inserted); err != nil {
		return 0, false, err
	}
	switch {
	case g.stop.hit != "" || g.over:
		g.finish = FinishStop
		return t, false, nil
	case g.r.MaxTokens > 0 && len(g.tokens) >= g.r.MaxTokens:
		g.finish = FinishLength
		return t, false, nil
	case g.state != nil && g.state.Complete():
		g.finish = FinishStop
		return t, false, nil
	}
	return t, true, nil
}

// pick returns the next token, which is sampled or comes from a replay. A replay ends
// with the vocabulary's end-of-turn token.
func (g *generation) pick(logits []float32, mask sample.Mask) (llm.Token, error) {
	switch {
	case g.replay == nil:
		return g.sampler.Sample(logits, mask)
	case g.replayed < len(g.replay):
		g.replayed++
		return g.replay[g.replayed-1], nil
	}
	if t := g.tok.EOT(); t >= 0 {
		return t, nil
	}
	return g.tok.EOS(), nil
}

// say decodes a token and emits the text that can no longer change. Reasoning tokens
// get no log-probabilities, and inserted tokens cannot complete a stop string.
func (g *generation) say(t llm.Token, thinking, inserted bool) error {
	if g.r.Logprobs && !thinking {
		p := Token{ID: t, Bytes: g.tok.Piece(t)}
		var err error
		if p.Logprob, err = g.probs.Of(t); err != nil {
			return err
		}
		g.top = g.probs.Top(g.top[:0])
		for _, c := range g.top {
			p.Top = append(p.Top, TopToken{c.Token, g.tok.Piece(c.Token), c.Logprob})
		}
		g.pending = append(g.pending, p)
	}
	g.text = g.decoder.Append(g.text[:0], t)
	if inserted {
		g.emit(append(g.stop.flush(), g.text...))
		return nil
	}
	g.emit(g.stop.push(g.text))
	return nil
}

// emit sends final text through the splitter.
func (g *generation) emit(text []byte) {
	if len(text) == 0 {
		return
	}
	for _, ev := range g.parts.push(string(text)) {
		g.send(ev)
	}
}

func (g *generation) send(ev Event) {
	if g.r.OneCall && ev.Kind == Call && ev.Call.Index > 0 {
		g.over = true
		return
	}
	ev.Tokens, g.pending = g.pending, nil
	ev.IDs, g.sent = slices.Clip(g.tokens[g.sent:]), len(g.tokens)
	g.out.push(ev)
}

// done ends the stream.
func (g *generation) done(f sched.Finish, st sched.Stats, err error) {
	if d, ok := g.drafter.(*draftOf); ok {
		d.end()
	}
	if g.r.Kept != nil && st.TextKey != (PrefixKey{}) {
		g.r.Kept(st.TextKey)
	}
	if err != nil {
		g.err = err
		g.out.close()
		return
	}
	if g.stop.hit == "" {
		g.emit(g.stop.push(g.decoder.Flush(nil)))
		g.emit(g.stop.flush())
	}
	for _, ev := range g.parts.finish() {
		g.send(ev)
	}
	if len(g.pending) > 0 {
		g.send(Event{Kind: Text})
	}
	full := f == sched.Length
	if full {
		g.finish = FinishLength
	}
	if g.finish == FinishStop && g.parts.called() {
		g.finish = FinishTools
	}
	stop := g.stop.hit
	if stop == g.end && !slices.Contains(g.r.Stop, stop) {
		stop = ""
	}
	g.out.push(Event{Kind: End, Result: &Result{
		Finish: g.finish, Stop: stop, Tokens: g.tokens, Seed: g.sampler.Seed(), Slot: st.Slot,
		Prompt: len(g.prompt), Cached: st.Cached, Spliced: st.Spliced, Stored: st.Stored, FromDisk: st.FromDisk, Ended: st.Ended, Why: st.Why, Completion: len(g.tokens), Reasoning: g.thought,
		Drafted: st.Drafted, Accepted: st.Accepted, Prefill: st.Prefill, Decode: st.Decode, Waited: st.Waited, Shifts: st.Shifts, Full: full,
	}})
	g.out.close()
}

// Answer runs a request to its end and returns the text and the result.
func (e *Engine) Answer(ctx context.Context, r Request) (string, *Result, error) {
	var text []byte
	for ev, err := range e.Generate(ctx, r) {
		if err != nil {
			return "", nil, err
		}
		switch ev.Kind {
		case Text:
			text = append(text, ev.Text...)
		case End:
			return string(text), ev.Result, nil
		}
	}
	return "", nil, errors.New("engine: a generation ended without a result")
}
