package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/engine"
)

// idle is how long a chat must be idle before its KV state is written to disk.
const idle = 20 * time.Second

// held records which slots hold the cache of which chats.
type held struct {
	mu    sync.Mutex
	chats map[int64]*holding
}

// holding is a chat whose cache is in a slot of a loaded model.
type holding struct {
	model   hub.Model
	engine  *engine.Engine
	slot    int
	tokens  int        // number of tokens in the slot
	message int64      // last message in the slot
	saving  sync.Mutex // held while the state is written
	saved   atomic.Bool
	timer   *time.Timer
	now     bool // the model is unloaded when its answer has ended
}

func (h *held) forget(chat int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.chats[chat]; x != nil {
		x.timer.Stop()
		delete(h.chats, chat)
	}
}

// lose forgets a holding, unless the chat already has another one.
func (h *held) lose(chat int64, x *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.chats[chat] == x {
		x.timer.Stop()
		delete(h.chats, chat)
	}
}

// put records a holding and returns the chat that had the slot before.
func (h *held) put(chat int64, x *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.chats == nil {
		h.chats = map[int64]*holding{}
	}
	for other, old := range h.chats {
		if other == chat || old.engine == x.engine && old.slot == x.slot {
			old.timer.Stop()
			delete(h.chats, other)
		}
	}
	h.chats[chat] = x
}

func (h *held) of(chat int64) *holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.chats[chat]
}

// keyed identifies the model and cache layout of a state.
func keyed(e *engine.Engine) string {
	l := e.KV()
	return fmt.Sprintf("%x %s/%s policy %d", e.Model().File.Identity(), l.Want.K.Name, l.Want.V.Name, l.Policy)
}

// hold records the slot in which an answer has left its chat. The state is saved
// when the chat becomes idle. If hold returns nil, states are not saved.
func (p *Page) hold(lease *pool.Lease, chat, message int64, result *engine.Result) *holding {
	s, err := p.o.Settings.Settings()
	if err != nil || s.Server.StateBudget <= 0 {
		return nil
	}
	x := &holding{model: lease.Model, engine: lease.Engine, slot: result.Slot, tokens: result.Prompt + result.Completion - 1, message: message}
	wait := idle
	if keep := time.Duration(s.Server.KeepAlive); keep >= 0 {
		wait = min(wait, keep/2) // the state must be saved before the model is unloaded
	}
	x.now = wait == 0
	x.timer = time.AfterFunc(wait, func() { p.saveLater(chat, x) })
	p.held.put(chat, x)
	return x
}

// saveNow saves a chat whose model is about to be unloaded.
func (p *Page) saveNow(chat int64, x *holding) {
	if err := p.saveState(p.ctx, chat, x); err != nil {
		p.log.Warn("chat state not saved", "err", err)
	}
}

func (p *Page) saveLater(chat int64, x *holding) {
	p.spawn(func() {
		if err := p.saveState(p.ctx, chat, x); err != nil && p.ctx.Err() == nil {
			p.log.Warn("chat state not saved", "err", err)
		}
	})
}

// saveState writes the slot of a chat to disk, unless the slot was reused or the
// model is no longer loaded.
func (p *Page) saveState(ctx context.Context, chat int64, x *holding) error {
	x.saving.Lock()
	defer x.saving.Unlock()
	if x.saved.Load() || p.held.of(chat) != x || p.models.Standing(x.model.Path).State != pool.Loaded {
		return nil
	}
	slots, err := x.engine.Slots(ctx)
	if errors.Is(err, engine.ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	if x.slot >= len(slots) || slots[x.slot].Busy || abs(slots[x.slot].Tokens-x.tokens) > 1 {
		p.held.lose(chat, x)
		return nil
	}
	s, err := p.o.Settings.Settings()
	if err != nil {
		return err
	}
	p.o.Store.SetStateBudget(int64(s.Server.StateBudget))
	st := store.State{Chat: chat, Message: x.message, Tokens: slots[x.slot].Tokens, Key: keyed(x.engine)}
	_, err = p.o.Store.SaveState(ctx, st, func(w io.Writer) error {
		_, err := x.engine.SaveSlot(ctx, x.slot, w)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, engine.ErrClosed):
		p.held.lose(chat, x) // the chat was deleted or the model unloaded
		return nil
	case err == nil:
		x.saved.Store(true)
	}
	return err
}

func abs(n int) int { return max(n, -n) }

// saveHeld saves the chats in a model, or in all models, before it is unloaded.
func (p *Page) saveHeld(ctx context.Context, path string) error {
	p.held.mu.Lock()
	list := map[int64]*holding{}
	for chat, x := range p.held.chats {
		if path == "" || x.model.Path == path {
			x.timer.Stop()
			list[chat] = x
		}
	}
	p.held.mu.Unlock()
	var errs []error
	for chat, x := range list {
		errs = append(errs, p.saveState(ctx, chat, x))
		p.held.lose(chat, x)
	}
	return errors.Join(errs...)
}

// restore loads the saved state of a chat into a free slot, unless a slot still
// holds the chat. It returns the number of tokens. A state that does not fit is
// deleted.
func (p *Page) restore(ctx context.Context, lease *pool.Lease, chat int64) int {
	e := lease.Engine
	slots, err := e.Slots(ctx)
	if err != nil {
		return 0
	}
	if x := p.held.of(chat); x != nil && x.engine == e && x.slot < len(slots) && abs(slots[x.slot].Tokens-x.tokens) <= 1 {
		return 0 // the slot still holds the chat
	}
	st, file, err := p.o.Store.OpenState(ctx, chat)
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // it was only read
	slot := p.freeSlot(e, slots)
	if slot < 0 || st.Key != keyed(e) {
		return 0
	}
	n, err := e.RestoreSlot(ctx, slot, "", file)
	if err != nil {
		p.log.Info("saved chat state not usable", "err", err)
		if ctx.Err() == nil {
			if err := p.o.Store.DropState(ctx, chat); err != nil {
				p.log.Warn("saved state not deleted", "err", err)
			}
		}
		return 0
	}
	if from, err := e.ReuseFrom(ctx, slot); err == nil {
		p.log.Debug("chat state restored", "tokens", n, "reuse_from", from)
	}
	return n
}

// freeSlot picks an idle slot: an empty one, else one that holds no chat of the
// page, else one whose chat is saved. It returns -1 if there is no such slot.
func (p *Page) freeSlot(e *engine.Engine, slots []engine.SlotInfo) int {
	p.held.mu.Lock()
	defer p.held.mu.Unlock()
	worth := func(s engine.SlotInfo) int {
		if s.Tokens == 0 {
			return 0
		}
		for _, x := range p.held.chats {
			if x.engine == e && x.slot == s.Slot {
				if x.saved.Load() {
					return 2
				}
				return 3
			}
		}
		return 1
	}
	best := -1
	for i, s := range slots {
		if !s.Busy && (best < 0 || worth(s) < worth(slots[best])) {
			best = i
		}
	}
	return best
}
