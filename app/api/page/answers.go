package page

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
)

// errAnswering refuses a change to a chat that is being answered.
var errAnswering = errors.New("wait for the current response or stop it first")

func keyOf(kind string, id int64) string { return kind + "/" + strconv.FormatInt(id, 10) }

// waiting says what an answer does before its first word.
type waiting struct {
	Phase string  `json:"phase"` // prepare, measure, load, queue, prefill
	Done  int     `json:"done"`
	Total int     `json:"total"`
	Left  float64 `json:"left_s,omitempty"` // seconds; 0: not known
}

// figures are what an answer comes to while it is written.
type figures struct {
	Prompt  int     `json:"prompt"`      // tokens
	Cached  int     `json:"cached"`      // tokens of the prompt that were not read again
	Resumed int     `json:"resumed"`     // tokens among them that came from the disk
	Tokens  int     `json:"tokens"`      // tokens of the answer
	Speed   float64 `json:"tok_s"`       // speed of the answer, or of the prompt while that is read
	Millis  float64 `json:"ms"`          // since the first token, or since reading began
	Context int     `json:"context"`     // tokens that the chat may hold
	Bytes   int64   `json:"bytes"`       // bytes of the whole cache
	Token   int64   `json:"token_bytes"` // size of the cache for one token
}

// answer is a message that is being written.
type answer struct {
	chat, message int64
	cancel        context.CancelCauseFunc
	done          chan struct{} // closed when final is set

	mu        sync.Mutex
	content   strings.Builder
	reasoning strings.Builder
	waiting   waiting
	figures   figures
	watchers  map[chan struct{}]struct{}
	final     store.Message
}

// change makes a change and wakes those who watch.
func (a *answer) change(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
	for w := range a.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func (a *answer) watch() chan struct{} {
	w := make(chan struct{}, 1)
	w <- struct{}{}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watchers == nil {
		a.watchers = map[chan struct{}]struct{}{}
	}
	a.watchers[w] = struct{}{}
	return w
}

func (a *answer) leave(w chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watchers, w)
}

// fill puts what there is by now into a message that was read from the store.
func (a *answer) fill(m *store.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.Content, m.Reasoning, m.Status = a.content.String(), a.reasoning.String(), store.Running
}

// answers are those being written.
type answers struct {
	mu     sync.Mutex
	list   map[int64]*answer       // keyed by message
	taken  map[int64]chan struct{} // chats that a request is changing; closed when it has
	unseen map[int64]struct{}      // chats with a finished answer that no window has shown
}

// fresh are the chats with an answer that nobody has seen.
func (l *answers) fresh() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int64{}, slices.Sorted(maps.Keys(l.unseen))...)
}

// seen reports whether that is news.
func (l *answers) seen(chat int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, was := l.unseen[chat]
	delete(l.unseen, chat)
	return was
}

func (l *answers) of(message int64) *answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[message]
}

// reserve keeps a chat for one request until that has begun an answer; false: one is
// being written, or another request has the chat.
func (l *answers) reserve(chat int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, taken := l.taken[chat]; taken {
		return false
	}
	for _, a := range l.list {
		if a.chat == chat {
			return false
		}
	}
	if l.taken == nil {
		l.taken = map[int64]chan struct{}{}
	}
	l.taken[chat] = make(chan struct{})
	return true
}

func (l *answers) give(chat int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.taken[chat])
	delete(l.taken, chat)
}

func (l *answers) add(a *answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = map[int64]*answer{}
	}
	l.list[a.message] = a
}

// remove takes an answer off the list; one that is finished is news.
func (l *answers) remove(a *answer, finished bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.list, a.message)
	if !finished {
		return
	}
	if l.unseen == nil {
		l.unseen = map[int64]struct{}{}
	}
	l.unseen[a.chat] = struct{}{}
}

// end takes a chat that is to go: its answers are stopped and none begins.
func (l *answers) end(ctx context.Context, chat int64) error {
	for !l.reserve(chat) {
		l.stopChat(chat)
		l.mu.Lock()
		given := l.taken[chat]
		l.mu.Unlock()
		if given == nil {
			continue
		}
		select {
		case <-given:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stopChat ends the answers of a chat and waits for them.
func (l *answers) stopChat(chat int64) {
	l.mu.Lock()
	var mine []*answer
	for _, a := range l.list {
		if a.chat == chat {
			mine = append(mine, a)
		}
	}
	l.mu.Unlock()
	for _, a := range mine {
		a.cancel(errStopped)
		<-a.done
	}
}

// asked is the body of the requests that begin an answer.
type asked struct {
	Parent      int64              `json:"parent"`
	Content     string             `json:"content"`
	Attachments []store.Attachment `json:"attachments"`
	Model       string             `json:"model"`
}

// begun is what they answer with: the messages that are new or other now.
type begun struct {
	Messages []store.Message `json:"messages"`
}

// sendMessage adds a message of the person and begins its answer.
func (p *Page) sendMessage(w http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	var q asked
	if err := read(w, r, textBody, &q); err != nil {
		return nil, err
	}
	if strings.TrimSpace(q.Content) == "" && len(q.Attachments) == 0 {
		return nil, bad("the message is empty")
	}
	m, err := p.modelFor(q.Model)
	if err != nil {
		return nil, err
	}
	if !p.answers.reserve(chat) {
		return nil, errAnswering
	}
	defer p.answers.give(chat)
	ctx := context.WithoutCancel(r.Context()) // what has begun continues without the window
	said, err := p.o.Store.Append(ctx, store.Message{Chat: chat, Parent: q.Parent, Role: store.User, Content: q.Content, Attachments: q.Attachments})
	if err != nil {
		return nil, err
	}
	return p.begin(ctx, m, said.Chat, said.ID)
}

// editMessage stores a message with other words as a new branch. One of the
// person is answered; an answer is just replaced.
func (p *Page) editMessage(w http.ResponseWriter, r *http.Request) (any, error) {
	message, q, m, err := p.about(w, r)
	if err != nil {
		return nil, err
	}
	defer p.answers.give(message.Chat)
	if strings.TrimSpace(q.Content) == "" && len(q.Attachments) == 0 {
		return nil, bad("the message is empty")
	}
	ctx := context.WithoutCancel(r.Context())
	edited, err := p.o.Store.Edit(ctx, message.ID, q.Content, q.Attachments)
	if err != nil {
		return nil, err
	}
	if edited.Role == store.User {
		return p.begin(ctx, m, edited.Chat, edited.ID)
	}
	return p.newest(ctx, edited.Chat, edited.ID)
}

// regenerate asks for another answer beside one.
func (p *Page) regenerate(w http.ResponseWriter, r *http.Request) (any, error) {
	message, _, m, err := p.about(w, r)
	if err != nil {
		return nil, err
	}
	defer p.answers.give(message.Chat)
	if message.Role != store.Assistant {
		return nil, bad("only a response can be regenerated")
	}
	return p.begin(context.WithoutCancel(r.Context()), m, message.Chat, message.Parent)
}

// continueAnswer continues an answer.
func (p *Page) continueAnswer(w http.ResponseWriter, r *http.Request) (any, error) {
	message, _, m, err := p.about(w, r)
	if err != nil {
		return nil, err
	}
	defer p.answers.give(message.Chat)
	ctx := context.WithoutCancel(r.Context())
	d, err := p.o.Store.Resume(ctx, message.ID)
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx, m, d, true); err != nil {
		return nil, err
	}
	return p.newest(ctx, message.Chat, message.ID)
}

// about reads a request about a message of a chat that is not being answered, and
// takes that chat where it returns no error.
func (p *Page) about(w http.ResponseWriter, r *http.Request) (store.Message, asked, hub.Model, error) {
	var q asked
	message, err := id(r)
	if err != nil {
		return store.Message{}, q, hub.Model{}, err
	}
	if err := read(w, r, textBody, &q); err != nil {
		return store.Message{}, q, hub.Model{}, err
	}
	old, err := p.o.Store.Message(r.Context(), message)
	if err != nil {
		return old, q, hub.Model{}, err
	}
	m, err := p.modelFor(q.Model)
	if err == nil && !p.answers.reserve(old.Chat) {
		err = errAnswering
	}
	return old, q, m, err
}

// modelFor is the model of a name that can be used.
func (p *Page) modelFor(name string) (hub.Model, error) {
	m, ok := p.lookUp(name)
	if state := p.models.Standing(m.Path).State; ok && (state == pool.Unloaded || state == pool.Failed) {
		if _, err := os.Stat(m.Path); errors.Is(err, fs.ErrNotExist) {
			if err := p.refreshed(); err != nil {
				return m, err
			}
			ok = false
		}
	}
	switch {
	case name == "":
		return m, bad("add a model under Models first")
	case !ok:
		return m, &refusal{http.StatusNotFound, "not_found", fmt.Sprintf("%q is no longer in your library; choose another model", name)}
	case m.Error != "":
		return m, &refusal{http.StatusConflict, "unusable", fmt.Sprintf("%s cannot be used: %s", name, m.Error)}
	}
	return m, nil
}

// begin starts an answer below a message.
func (p *Page) begin(ctx context.Context, m hub.Model, chat, parent int64) (begun, error) {
	d, err := p.o.Store.Begin(ctx, store.Message{Chat: chat, Parent: parent, Role: store.Assistant, Model: m.Name})
	if err != nil {
		return begun{}, err
	}
	if err := p.run(ctx, m, d, false); err != nil {
		return begun{}, err
	}
	return p.newest(ctx, chat, d.Message().ID)
}

// newest returns the messages that a page does not have, up to the one that is
// being written: it and what it answers.
func (p *Page) newest(ctx context.Context, chat, message int64) (begun, error) {
	path, _, err := p.o.Store.Path(ctx, chat, store.Page{Limit: 2})
	for i := range path {
		if a := p.answers.of(path[i].ID); a != nil {
			a.fill(&path[i])
		}
	}
	p.chatsChanged()
	p.chatChanged(chat, message)
	return begun{path}, err
}

func (p *Page) stopAnswer(_ http.ResponseWriter, r *http.Request) (any, error) {
	message, err := id(r)
	if err != nil {
		return nil, err
	}
	if a := p.answers.of(message); a != nil {
		a.cancel(errStopped)
		<-a.done
	}
	return nil, nil
}

// streamAnswer follows an answer: what there is, what is added, and the message
// as it is stored in the end.
func (p *Page) streamAnswer(w http.ResponseWriter, r *http.Request) (any, error) {
	message, err := id(r)
	if err != nil {
		return nil, err
	}
	a := p.answers.of(message)
	if a == nil {
		m, err := p.o.Store.Message(r.Context(), message)
		if err != nil {
			return nil, err
		}
		out, err := newStream(w)
		if err == nil {
			_ = out.send("end", m) // the page may be gone
		}
		return sent{}, nil
	}
	watch := a.watch()
	defer a.leave(watch)
	out, err := newStream(w)
	alive := time.NewTicker(beat)
	defer alive.Stop()
	f := follower{out: out}
	for err == nil {
		select {
		case <-watch:
			err = f.catchUp(a)
		case <-a.done:
			if err = f.catchUp(a); err == nil {
				_ = out.send("end", a.final) // a reader that has gone needs no end
			}
			return sent{}, nil
		case <-alive.C:
			err = out.alive()
		case <-r.Context().Done():
			return sent{}, nil
		}
	}
	return sent{}, nil // the page has gone; the answer continues
}

// follower is how far a window has read an answer.
type follower struct {
	out                *stream
	content, reasoning int
	begun              bool
	waiting            waiting
	figures            figures
	figured            time.Time
}

// figuresEvery is the time between two events with figures.
const figuresEvery = 250 * time.Millisecond

// piece is text that is added, or with Reset all there is.
type piece struct {
	Text  string `json:"text"`
	Reset bool   `json:"reset,omitempty"`
}

// catchUp sends what is new.
func (f *follower) catchUp(a *answer) error {
	a.mu.Lock()
	content, reasoning, now, live := a.content.String(), a.reasoning.String(), a.waiting, a.figures
	a.mu.Unlock()
	first := !f.begun
	f.begun = true
	if now != f.waiting && content == "" && reasoning == "" {
		f.waiting = now
		if err := f.out.send("waiting", now); err != nil {
			return err
		}
	}
	if live != f.figures && time.Since(f.figured) >= figuresEvery {
		f.figures, f.figured = live, time.Now()
		if err := f.out.send("figures", live); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		text string
		seen *int
	}{{"reasoning", reasoning, &f.reasoning}, {"text", content, &f.content}} {
		if len(part.text) == *part.seen && !(first && part.text != "") {
			continue
		}
		if err := f.out.send(part.name, piece{part.text[*part.seen:], first}); err != nil {
			return err
		}
		*part.seen = len(part.text)
	}
	return nil
}
