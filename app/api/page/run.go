package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/engine"
)

// saveTime is how long storing an answer may take after the program received a
// request to exit.
const saveTime = 5 * time.Second

// lasting returns a context for storing results. It outlives the program's context
// by saveTime.
func (p *Page) lasting() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(p.ctx, func() { time.AfterFunc(saveTime, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// run generates a draft's text in a goroutine. An error is stored with the
// answer, because the question is already stored.
func (p *Page) run(ctx context.Context, m hub.Model, d *store.Draft, goOn bool) error {
	p.titles.yield()
	message := d.Message()
	request, err := p.asks(ctx, &m, message, goOn)
	if err != nil {
		_, err = p.end(d, message, err)
		return err
	}
	work, cancel := context.WithCancelCause(p.ctx)
	a := &answer{chat: message.Chat, message: message.ID, cancel: cancel, done: make(chan struct{})}
	a.content.WriteString(message.Content)
	a.reasoning.WriteString(message.Reasoning)
	a.waiting = waiting{Phase: "prepare"}
	w := writer{p: p, a: a, d: d, m: m, request: request, start: time.Now(), message: message}
	w.message.Model = m.Name
	p.answers.add(a)
	if p.spawn(func() { defer cancel(nil); w.write(work) }) {
		return nil
	}
	cancel(errClosing)
	ended, err := p.end(d, message, errClosing)
	a.change(func() { a.final = ended })
	p.answers.remove(a, false)
	close(a.done)
	return err
}

// asks returns the engine's request for the answer to a message.
func (p *Page) asks(ctx context.Context, model *hub.Model, m store.Message, goOn bool) (engine.Request, error) {
	chat, err := p.chats(m.Chat).Chat(ctx, m.Chat)
	if err != nil {
		return engine.Request{}, err
	}
	path, err := p.upTo(ctx, m, goOn)
	if err != nil {
		return engine.Request{}, err
	}
	r, err := p.request(&chat, model, path, goOn)
	r.Private = chat.Private
	return r, err
}

// end stores a draft that has no text, with the error that ended it.
func (p *Page) end(d *store.Draft, m store.Message, cause error) (store.Message, error) {
	ctx, cancel := p.lasting()
	defer cancel()
	m.Status, m.Error = store.Failed, cause.Error()
	return d.Finish(ctx, m)
}

// upTo returns the messages before m, and m itself if itself is set.
func (p *Page) upTo(ctx context.Context, m store.Message, itself bool) ([]store.Message, error) {
	path, _, err := p.chats(m.Chat).Path(ctx, m.Chat, store.Page{})
	if err != nil {
		return nil, err
	}
	for i := range path {
		if path[i].ID == m.ID {
			if itself {
				i++
			}
			return path[:i], nil
		}
	}
	return nil, fmt.Errorf("message %d: %w", m.ID, store.ErrNotFound)
}

// writer generates one answer.
type writer struct {
	p       *Page
	a       *answer
	d       *store.Draft
	m       hub.Model
	request engine.Request
	message store.Message
	start   time.Time
	first   time.Time         // time of the first word
	kept    *engine.PrefixKey // key of the text in the caches; nil if nothing is kept
	calls   []call
}

// call is a tool call in OpenAI's form.
type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// write loads the model, generates the answer, and stores it.
func (w *writer) write(ctx context.Context) {
	var result *engine.Result
	lease, err := w.load(ctx)
	if err == nil {
		result, err = w.generate(ctx, lease)
	}
	stored := w.settle(ctx, lease, result, err)
	w.keepPrefix()
	if lease != nil { // released before tell, so that a listener that retries or unloads finds the model free
		lease.Release()
	}
	w.tell(stored)
	w.p.titleLater(w.m, &stored)
}

// keepPrefix records the key of the text that the answer has left in the
// caches, so that the text can be erased with its chat.
func (w *writer) keepPrefix() {
	if w.kept == nil {
		return
	}
	ctx, cancel := w.p.lasting()
	defer cancel()
	err := w.p.chats(w.a.message).KeepPrefix(ctx, w.a.message, w.kept[:])
	if err != nil {
		w.p.log.Warn("chat text not tracked for deletion from the cache", "err", err)
	}
}

// load waits for the model and reports the progress.
func (w *writer) load(ctx context.Context) (*pool.Lease, error) {
	if w.p.models.Standing(w.m.Path).State != pool.Loaded {
		w.a.change(func() { w.a.waiting = waiting{Phase: "load", Total: 1000} })
		forget := w.p.library.watch(w.m.Path, func(now waiting) {
			w.a.change(func() { w.a.waiting = now })
		})
		defer forget()
	}
	return w.p.models.Acquire(ctx, w.m, pool.Terms{})
}

func (w *writer) generate(ctx context.Context, lease *pool.Lease) (*engine.Result, error) {
	w.a.change(func() { w.a.waiting = waiting{Phase: "prepare"} })
	w.request.Kept = func(key engine.PrefixKey) { w.kept = &key }
	w.request.Queued = func() {
		if full(lease.Engine) {
			w.a.change(func() { w.a.waiting = waiting{Phase: "queue"} })
		}
	}
	layout := lease.Engine.KV()
	live := figures{Context: lease.Engine.Context(), Bytes: layout.Bytes(), Token: int64(layout.BytesPerToken())}
	var began, first time.Time // start of the prompt; start of the answer
	for ev, err := range lease.Engine.Generate(ctx, w.request) {
		if err != nil {
			return nil, err
		}
		switch ev.Kind {
		case engine.Prefill:
			if began.IsZero() {
				began, live.Cached, live.Resumed = time.Now(), ev.Done, ev.FromDisk
			}
			live.Prompt = ev.Total
			span := time.Since(began)
			if live.Millis = ms(span); span > 0 {
				live.Speed = float64(ev.Done-live.Cached) / span.Seconds()
			}
			w.a.change(func() {
				w.a.waiting, w.a.figures = waiting{Phase: "prefill", Done: ev.Done, Total: ev.Total}, live
			})
		case engine.Text, engine.Reasoning:
			if w.first.IsZero() {
				w.first = time.Now()
			}
			into := &w.a.content
			if ev.Kind == engine.Reasoning {
				into = &w.a.reasoning
			}
			if first.IsZero() {
				first = time.Now()
			}
			live.Tokens += len(ev.IDs)
			span := time.Since(first)
			if live.Speed = 0; span > 0 && live.Tokens > 1 {
				live.Speed = float64(live.Tokens-1) / span.Seconds()
			}
			live.Millis = ms(span)
			w.a.change(func() {
				into.WriteString(ev.Text)
				w.a.figures = live
			})
			if err := w.d.Save(ctx, w.text); err != nil && ctx.Err() == nil {
				return nil, err
			}
		case engine.Call:
			w.a.change(func() { w.a.waiting = waiting{Phase: "call"} })
			w.addCall(&ev.Call)
		case engine.End:
			return ev.Result, nil
		}
	}
	return nil, context.Cause(ctx)
}

// full reports whether a request has to wait for another request.
func full(e *engine.Engine) bool {
	view, err := e.View()
	if err != nil {
		return false // the model is being unloaded; the request reports that itself
	}
	for _, slot := range view.Slots {
		if !slot.Busy {
			return false
		}
	}
	return len(view.Slots) > 0
}

func (w *writer) text() (content, reasoning string) {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	return w.a.content.String(), w.a.reasoning.String()
}

func (w *writer) addCall(d *engine.CallDelta) {
	for len(w.calls) <= d.Index {
		w.calls = append(w.calls, call{Type: "function"})
	}
	c := &w.calls[d.Index]
	c.ID += d.ID
	c.Function.Name += d.Name
	c.Function.Arguments += d.Arguments
}

// settle stores the answer with its statistics and returns the stored message.
func (w *writer) settle(ctx context.Context, lease *pool.Lease, result *engine.Result, err error) store.Message {
	m := w.message
	m.Content, m.Reasoning = w.text()
	if len(w.calls) > 0 {
		m.ToolCalls, _ = json.Marshal(w.calls) // cannot fail, because it contains only strings
	}
	m.Status = store.Done
	switch {
	case err == nil:
	case ctx.Err() != nil:
		m.Status = store.Stopped
	default:
		m.Status, m.Error = store.Failed, advice(err)
	}
	m.Stats = w.stats(lease, result, &m)
	save, cancel := w.p.lasting()
	defer cancel()
	stored, err := w.d.Finish(save, m)
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) { // ErrNotFound means that another program has deleted the chat
			w.p.log.Error("answer not stored", "err", err)
			w.p.say("error", fmt.Sprintf(noticeNotStored, err))
		}
		stored = m
		stored.Status, stored.Error = store.Failed, fmt.Sprintf(adviceNotStored, err)
	}
	return stored
}

// tell notifies all windows that the answer has ended.
func (w *writer) tell(stored store.Message) {
	w.a.change(func() { w.a.final = stored })
	w.p.answers.remove(w.a, stored.Status != store.Stopped)
	close(w.a.done)
	w.p.chatsChanged()
	w.p.chatChanged(stored.Chat, stored.ID)
}

// stats returns the statistics of the answer. The engine returns no result for
// a stopped answer, so the tokens are counted in its text.
func (w *writer) stats(lease *pool.Lease, result *engine.Result, m *store.Message) store.Stats {
	s := store.Stats{TotalMS: ms(time.Since(w.start))}
	if !w.first.IsZero() {
		s.FirstMS = ms(w.first.Sub(w.start))
	}
	if result == nil {
		if lease == nil || w.first.IsZero() {
			return s
		}
		if tok, err := lease.Engine.Model().Tokenizer(); err == nil {
			s.OutputTokens = len(tok.EncodeText(m.Reasoning+m.Content, false, false))
			if span := time.Since(w.first).Seconds(); span > 0 && s.OutputTokens > 1 {
				s.TokensPerS = float64(s.OutputTokens-1) / span
			}
			if prompt, err := lease.Engine.Encode(context.Background(), &w.request); err == nil {
				s.PromptTokens = len(prompt)
			}
		}
		return s
	}
	s.Full = result.Full
	s.PromptTokens, s.CachedTokens, s.OutputTokens, s.Finish = result.Prompt, result.Cached, result.Completion, result.Finish
	s.ResumedFrom = min(result.FromDisk, result.Cached)
	if result.Completion > 1 && result.Decode > 0 {
		s.TokensPerS = float64(result.Completion-1) / result.Decode.Seconds()
	}
	return s
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// grouped formats a number with commas between thousands.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// advice returns the text of an error, with a hint about what to do.
func advice(err error) string {
	text := err.Error()
	var long *engine.TooLong
	switch {
	case errors.As(err, &long):
		room := ""
		if long.Prompt == long.Context {
			room = adviceRoom
		}
		return fmt.Sprintf(adviceTooLong, grouped(long.Prompt), grouped(long.Context), room)
	case errors.Is(err, engine.ErrClosed):
		return adviceUnloaded
	case errors.Is(err, engine.ErrMemory):
		return fmt.Sprintf(adviceMemory, text)
	}
	return text
}
