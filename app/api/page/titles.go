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

// titleWait is how long a model must be idle before it writes a title, and
// titleTries is the maximum number of attempts. titleTokens limits the tokens of a
// title. titleSight limits the characters of each message that the model sees.
const (
	titleWait   = 3 * time.Second
	titleTries  = 100
	titleTokens = 32
	titleSight  = 600
)

// titleShape is a grammar that allows only two to seven words on one line.
const titleShape = `root ::= word (" " word){1,6}
word ::= [^ \t\r\n"*#<>:.]{1,24}`

// errOthers is the reason why a title is given up when other work arrives.
var errOthers = errors.New("other work arrived")

// titles generates the titles of chats, one at a time.
type titles struct {
	wait time.Duration // idle time before an attempt; 0: titleWait

	mu   sync.Mutex
	stop context.CancelCauseFunc // stops the title that is being written; nil without one
	done chan struct{}           // closed when that title has ended
}

// begin reserves the right to write a title until ended is called. It returns
// nil if another title is being written.
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

// yield stops the title that is being written, and returns when its slot is
// free.
func (t *titles) yield() {
	t.mu.Lock()
	stop, done := t.stop, t.done
	t.mu.Unlock()
	if stop != nil {
		stop(errOthers)
		<-done
	}
}

// titleLater makes the model write a title after the first answer of a chat,
// once the model is idle. A chat that the user has named keeps its title.
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

// title writes the title of a chat if nothing else runs. It returns true if no
// further attempt is needed.
func (p *Page) title(m hub.Model, chat int64) (settled bool, err error) {
	ctx, ended := p.titles.begin(p.ctx)
	if ctx == nil {
		return false, nil
	}
	defer ended()
	if p.answers.any() {
		return false, nil
	}
	path, total, err := p.chats(chat).Path(ctx, chat, store.Page{Limit: 3})
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
	named, err := p.chats(chat).Suggest(ctx, chat, text)
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

// titleRequest returns the request for the title of a chat with one question
// and its answer.
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

// clip shortens a text to its beginning.
func clip(text string) string {
	if letters := []rune(text); len(letters) > titleSight {
		return string(letters[:titleSight]) + "…"
	}
	return text
}

// spare returns an empty slot of an idle model. Another slot must also be
// empty, and 2n cells must be free, so that no chat loses its cells. It returns
// -1 if there is no such slot.
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

// compose generates a title in the request's slot. It fails with errOthers when
// other work arrives.
func compose(ctx context.Context, e *engine.Engine, r engine.Request) (string, error) {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop(nil) // runs before watch.Wait, which would otherwise block
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

// others reports whether a slot other than ours is busy, or a request is
// queued.
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

// tidy turns the model's text into a title. If the text was cut off, it drops
// the last word. It returns "" if the text has no letters.
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
