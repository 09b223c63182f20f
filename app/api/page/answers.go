package page

import (
	"context"
	"errors"
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

// errAnswering rejects a change to a chat that is being answered.
var errAnswering = errors.New(textAnswering)

func keyOf(kind string, id int64) string { return kind + "/" + strconv.FormatInt(id, 10) }

// waiting describes the current phase of an answer before its first word.
type waiting struct {
	Phase string  `json:"phase"` // prepare, measure, load, queue, prefill, call
	Done  int     `json:"done"`
	Total int     `json:"total"`
	Left  float64 `json:"left_s,omitempty"` // remaining seconds; 0 if unknown
}

// figures are the statistics of an answer while it is generated.
type figures struct {
	Prompt  int     `json:"prompt"`      // number of prompt tokens
	Cached  int     `json:"cached"`      // prompt tokens that were in the cache
	Resumed int     `json:"resumed"`     // cached tokens that were read from disk
	Tokens  int     `json:"tokens"`      // number of tokens in the answer
	Speed   float64 `json:"tok_s"`       // tokens per second of the answer, or of the prompt while it is read
	Millis  float64 `json:"ms"`          // milliseconds since the first token; while the prompt is read, since the start of reading
	Context int     `json:"context"`     // maximum number of tokens in the chat
	Bytes   int64   `json:"bytes"`       // size of the whole cache in bytes
	Token   int64   `json:"token_bytes"` // cache bytes per token
}

// answer is a message that is being generated.
type answer struct {
	chat, message int64
	cancel        context.CancelCauseFunc
	done          chan struct{} // closed when final has been set

	mu        sync.Mutex
	content   strings.Builder
	reasoning strings.Builder
	waiting   waiting
	figures   figures
	watchers  map[chan struct{}]struct{}
	final     store.Message
}

// change makes a change and notifies the followers.
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

// fill adds the current text of a running answer to a message from the store.
func (a *answer) fill(m *store.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.Content, m.Reasoning, m.Status = a.content.String(), a.reasoning.String(), store.Running
}

// answers holds the answers that are being generated.
type answers struct {
	mu     sync.Mutex
	list   map[int64]*answer       // answers by message id
	taken  map[int64]chan struct{} // chats that a request is changing; closed when the request is done
	unseen map[int64]struct{}      // chats with a finished answer that no window has shown
}

// fresh returns the chats with a finished answer that no window has shown.
func (l *answers) fresh() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int64{}, slices.Sorted(maps.Keys(l.unseen))...)
}

// seen records that a chat was shown. It reports whether that changed anything.
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

// reserve keeps a chat for one request until the request has started an answer.
// It returns false if an answer is being generated or another request has
// reserved the chat.
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

// remove removes an answer from the list. A finished answer counts as unseen.
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

// end prepares to delete a chat. It stops the chat's answers and prevents new ones.
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

// stopChat stops the answers of a chat and waits until they have ended.
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

// asked is the body of a request that starts an answer.
type asked struct {
	Parent      int64              `json:"parent"`
	Content     string             `json:"content"`
	Attachments []store.Attachment `json:"attachments"`
	Model       string             `json:"model"`
	Results     []toolResult       `json:"results"` // in place of Content: results of tool calls
}

// begun is the response to a request that starts an answer. It holds the new and the
// changed messages.
type begun struct {
	Messages []store.Message `json:"messages"`
}

// sendMessage adds a message of the user and starts its answer.
func (p *Page) sendMessage(w http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	var q asked
	if err := read(w, r, textBody, &q); err != nil {
		return nil, err
	}
	if q.empty() {
		return nil, bad(textEmptyMessage)
	}
	m, err := p.modelFor(q.Model)
	if err != nil {
		return nil, err
	}
	if !p.answers.reserve(chat) {
		return nil, errAnswering
	}
	defer p.answers.give(chat)
	ctx := context.WithoutCancel(r.Context()) // an answer that has started continues when the window closes
	said := store.Message{Chat: chat, Parent: q.Parent, Role: store.User, Content: q.Content, Attachments: q.Attachments}
	if len(q.Results) > 0 {
		said, err = p.addResults(ctx, chat, q.Parent, q.Results)
	} else {
		said, err = p.chats(chat).Append(ctx, said)
	}
	if err != nil {
		return nil, err
	}
	return p.begin(ctx, m, said, 1+max(1, len(q.Results)))
}

// editMessage stores a changed message as a new branch. A changed user message gets
// a new answer. A changed answer is stored without generating text.
func (p *Page) editMessage(w http.ResponseWriter, r *http.Request) (any, error) {
	message, q, m, err := p.about(w, r)
	if err != nil {
		return nil, err
	}
	defer p.answers.give(message.Chat)
	if q.empty() {
		return nil, bad(textEmptyMessage)
	}
	ctx := context.WithoutCancel(r.Context())
	edited, err := p.chats(message.ID).Edit(ctx, message.ID, q.Content, q.Attachments)
	if err != nil {
		return nil, err
	}
	if edited.Role == store.User {
		return p.begin(ctx, m, edited, 2)
	}
	return p.newest(ctx, edited.Chat, edited.ID, 2)
}

// regenerate generates another answer as a new branch.
func (p *Page) regenerate(w http.ResponseWriter, r *http.Request) (any, error) {
	message, _, m, err := p.about(w, r)
	if err != nil {
		return nil, err
	}
	defer p.answers.give(message.Chat)
	if message.Role != store.Assistant {
		return nil, bad(textOnlyResponses)
	}
	return p.begin(context.WithoutCancel(r.Context()), m, store.Message{Chat: message.Chat, ID: message.Parent}, 2)
}

// continueAnswer continues an answer.
func (p *Page) continueAnswer(w http.ResponseWriter, r *http.Request) (any, error) {
	message, _, m, err := p.about(w, r)
	if err != nil {
		return nil, err
	}
	defer p.answers.give(message.Chat)
	ctx := context.WithoutCancel(r.Context())
	d, err := p.chats(message.ID).Resume(ctx, message.ID)
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx, m, d, true); err != nil {
		return nil, err
	}
	return p.newest(ctx, message.Chat, message.ID, 2)
}

// about reads a request about a message and reserves its chat. If about fails,
// for example because the chat is being answered, the chat is not reserved.
func (p *Page) about(w http.ResponseWriter, r *http.Request) (store.Message, asked, hub.Model, error) {
	var q asked
	message, err := id(r)
	if err != nil {
		return store.Message{}, q, hub.Model{}, err
	}
	if err := read(w, r, textBody, &q); err != nil {
		return store.Message{}, q, hub.Model{}, err
	}
	old, err := p.chats(message).Message(r.Context(), message)
	if err != nil {
		return old, q, hub.Model{}, err
	}
	m, err := p.modelFor(q.Model)
	if err == nil && !p.answers.reserve(old.Chat) {
		err = errAnswering
	}
	return old, q, m, err
}

// modelFor returns the model with the given name, or an error if it cannot be
// used.
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
		return m, bad(textNoModel)
	case !ok:
		return m, refuse(http.StatusNotFound, "not_found", textModelGone, name)
	case m.Error != "":
		return m, refuse(http.StatusConflict, "unusable", textModelUnusable, name, m.Error)
	}
	return m, nil
}

// begin starts an answer below a message. It returns the last n messages.
func (p *Page) begin(ctx context.Context, m hub.Model, below store.Message, n int) (begun, error) {
	d, err := p.chats(below.Chat).Begin(ctx, store.Message{Chat: below.Chat, Parent: below.ID, Role: store.Assistant, Model: m.Name})
	if err != nil {
		return begun{}, err
	}
	if err := p.run(ctx, m, d, false); err != nil {
		return begun{}, err
	}
	return p.newest(ctx, below.Chat, d.Message().ID, n)
}

// newest returns the last n messages, which the page does not have: the answer that
// is being generated, and the messages that it answers.
func (p *Page) newest(ctx context.Context, chat, message int64, n int) (begun, error) {
	path, _, err := p.chats(chat).Path(ctx, chat, store.Page{Limit: n})
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

// streamAnswer follows an answer. It sends the current text, then each added
// piece, and finally the stored message.
func (p *Page) streamAnswer(w http.ResponseWriter, r *http.Request) (any, error) {
	message, err := id(r)
	if err != nil {
		return nil, err
	}
	a := p.answers.of(message)
	if a == nil {
		m, err := p.chats(message).Message(r.Context(), message)
		if err != nil {
			return nil, err
		}
		out, err := newStream(w)
		if err == nil {
			_ = out.send("end", m) // the page may have disconnected
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
				_ = out.send("end", a.final) // a follower that has disconnected does not need the message
			}
			return sent{}, nil
		case <-alive.C:
			err = out.alive()
		case <-r.Context().Done():
			return sent{}, nil
		}
	}
	return sent{}, nil // the page has disconnected, but the answer continues
}

// follower records which part of an answer a window has received.
type follower struct {
	out                *stream
	content, reasoning int
	begun              bool
	waiting            waiting
	figures            figures
	figured            time.Time
}

// figuresEvery is the interval between two events with figures.
const figuresEvery = 250 * time.Millisecond

// piece is added text, or the whole text so far if Reset is set.
type piece struct {
	Text  string `json:"text"`
	Reset bool   `json:"reset,omitempty"`
}

// catchUp sends everything new.
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
