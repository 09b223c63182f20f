package page

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/engine"
)

// Limits of a title: the quiet before it is written, how often that is tried, the tokens
// that it may take, and the letters of a message that the model sees of it.
const (
	titleWait   = 3 * time.Second
	titleTries  = 100
	titleTokens = 32
	titleSight  = 600
)

// titleShape lets a model write two to seven words on one line and nothing else.
const titleShape = `root ::= word (" " word){1,6}
word ::= [^ \t\r\n"*#<>:.]{1,24}`

// errOthers ends a title when other work arrives.
var errOthers = errors.New("other work arrived")

// titles writes titles of chats, one at a time.
type titles struct {
	wait time.Duration // 0: titleWait

	mu   sync.Mutex
	stop context.CancelCauseFunc // ends the title that is being written; nil: none
	done chan struct{}           // closed when it has ended
}

// begin reserves the turn of a title; ended gives it back. nil: another is being written.
func (t *titles) begin(parent context.Context) (ctx context.Context, ended func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop != nil {
		return nil, nil
	}
	ctx, stop := context.WithCancelCause(parent)
	done := make(chan struct{})
	t.stop, t.done = stop, done
	return ctx, func() {
		stop(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stop = nil
		close(done)
	}
}

// yield ends the title that is being written and returns when its slot is free.
func (t *titles) yield() {
	t.mu.Lock()
	stop, done := t.stop, t.done
	t.mu.Unlock()
	if stop != nil {
		stop(errOthers)
		<-done
	}
}

// titleLater has a model name a chat after its first answer, once it has nothing else to
// do. A chat that a person has named keeps its title.
func (p *Page) titleLater(m hub.Model, last *store.Message) {
	s, err := p.o.Settings.Settings()
	if err != nil || !s.App.ChatTitles || last.Status != store.Done || last.Content == "" {
		return
	}
	chat, wait := last.Chat, p.titles.wait
	if wait == 0 {
		wait = titleWait
	}
	p.spawn(func() {
		for range titleTries {
			select {
			case <-time.After(wait):
			case <-p.ctx.Done():
				return
			}
			settled, err := p.title(m, chat)
			if err != nil && p.ctx.Err() == nil && !errors.Is(err, errOthers) {
				p.log.Info("chat not named", "err", err)
			}
			if settled || err != nil && !errors.Is(err, errOthers) {
				return
			}
		}
	})
}

// title writes the title of a chat if nothing else runs. It reports whether there is
// nothing left to try.
func (p *Page) title(m hub.Model, chat int64) (settled bool, err error) {
	ctx, ended := p.titles.begin(p.ctx)
	if ctx == nil {
		return false, nil
	}
	defer ended()
	if p.answers.any() {
		return false, nil
	}
	path, total, err := p.o.Store.Path(ctx, chat, store.Page{Limit: 3})
	if err != nil || total != 2 || path[0].Role != store.User {
		return true, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	lease := p.models.Borrow(m.Path, func() { stop(errOthers) })
	if lease == nil {
		return p.models.Standing(m.Path).State != pool.Loaded, nil
	}
	defer lease.Release()
	r, err := titleRequest(path)
	if err != nil {
		return true, err
	}
	prompt, err := lease.Engine.Encode(ctx, &r)
	if err != nil {
		return true, err
	}
	slot := spare(lease.Engine, len(prompt)+titleTokens)
	if slot < 0 {
		return false, nil
	}
	r.Slot = &slot
	text, err := compose(ctx, lease.Engine, r)
	if err != nil {
		return false, err
	}
	if text == "" {
		return true, nil
	}
	named, err := p.o.Store.Suggest(ctx, chat, text)
	if named {
		p.chatsChanged()
	}
	return true, err
}

// any reports whether an answer is being written.
func (l *answers) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list) > 0
}

// titleRequest asks for the title of a chat that has one question and its answer.
func titleRequest(path []store.Message) (engine.Request, error) {
	shape, err := engine.ParseGrammar(titleShape)
	if err != nil {
		return engine.Request{}, err
	}
	ask := "Write a title of three to six words for the conversation below, in its language. Answer with the title alone.\n\n" +
		"Question: " + clip(path[0].Content) + "\n\nAnswer: " + clip(path[1].Content)
	off := false
	return engine.Request{
		Chat:      &engine.Chat{Messages: conversation("", []store.Message{{Role: store.User, Content: ask}}), Thinking: &off},
		MaxTokens: titleTokens, Grammar: shape, Private: true,
	}, nil
}

// clip returns the start of a text.
func clip(text string) string {
	if letters := []rune(text); len(letters) > titleSight {
		return string(letters[:titleSight]) + "…"
	}
	return text
}

// spare is an empty slot of a model that nobody uses, if another one stays empty and n
// cells are free, so that the sequences of chats keep their cells; -1: none.
func spare(e *engine.Engine, n int) int {
	view, err := e.View()
	if err != nil || view.Queued > 0 || view.Free < 2*n {
		return -1
	}
	slot, empty := -1, 0
	for _, s := range view.Slots {
		if s.Busy {
			return -1
		}
		if s.Tokens == 0 {
			slot, empty = s.Slot, empty+1
		}
	}
	if empty < 2 {
		return -1
	}
	return slot
}

// compose generates a title in its slot. It ends with errOthers when other work arrives.
func compose(ctx context.Context, e *engine.Engine, r engine.Request) (string, error) {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop(nil) // before the wait
	watch.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-tick.C:
			case <-work.Done():
				tick.Stop()
				return
			}
			if others(e, *r.Slot) {
				stop(errOthers)
			}
		}
	})
	var b strings.Builder
	for ev, err := range e.Generate(work, r) {
		if err != nil {
			if cause := context.Cause(work); cause != nil {
				return "", cause
			}
			return "", err
		}
		if ev.Kind == engine.Text {
			b.WriteString(ev.Text)
		}
		if ev.Kind == engine.End {
			return tidy(b.String(), ev.Result.Finish == "length"), nil
		}
	}
	return "", context.Cause(work)
}

// others reports whether a slot but ours works, or a request waits for one.
func others(e *engine.Engine, ours int) bool {
	view, err := e.View()
	if err != nil {
		return true
	}
	busy := view.Queued
	for _, s := range view.Slots {
		if s.Busy && s.Slot != ours {
			busy++
		}
	}
	return busy > 0
}

// tidy makes a title out of what a model wrote; of a text that was cut off it leaves out
// the last word. Empty: it wrote none.
func tidy(text string, cut bool) string {
	words := strings.Fields(text)
	if cut && len(words) > 0 {
		words = words[:len(words)-1]
	}
	if len(words) > 1 && strings.EqualFold(words[0], "title") {
		words = words[1:]
	}
	title := strings.Trim(strings.Join(words, " "), " -–—,;!\"'“”‘’`")
	if !strings.ContainsFunc(title, unicode.IsLetter) {
		return ""
	}
	return title
}
