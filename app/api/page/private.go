package page

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"godwit/app/store"
)

// privateTime is how long private chats are kept without an open window, so that
// a window can be reloaded.
const privateTime = time.Minute

// private holds the chats that exist only in memory, until the last window closes
// or the program ends. Their answers leave nothing in the prefix caches.
type private struct {
	chats *store.Store
	close func() error
	wait  time.Duration // time without a window until the chats are deleted; 0: privateTime

	mu    sync.Mutex
	later *time.Timer // deletes the chats; nil before the first window has closed
}

func (v *private) open() error {
	var err error
	if v.chats, err = store.OpenMemory(store.Options{}); err != nil {
		return err
	}
	v.close = sync.OnceValue(v.chats.Close)
	return nil
}

// chats returns the store that contains the chat or message with an id.
func (p *Page) chats(id int64) *store.Store {
	if store.Private(id) {
		return p.private.chats
	}
	return p.o.Store
}

// everyChat lists the private chats and all others. Pinned chats come first, then
// the newest.
func (p *Page) everyChat(ctx context.Context) ([]store.Chat, error) {
	hidden, err := p.private.chats.Chats(ctx, store.List{})
	if err != nil {
		return nil, err
	}
	list, err := p.o.Store.Chats(ctx, store.List{})
	if len(hidden) == 0 || err != nil {
		return list, err
	}
	list = append(list, hidden...)
	slices.SortStableFunc(list, func(a, b store.Chat) int {
		if a.Pinned != b.Pinned {
			return map[bool]int{true: -1, false: 1}[a.Pinned]
		}
		return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(b.ID, a.ID))
	})
	return list, nil
}

// forgetLater deletes all private chats after privateTime, unless a window is open by
// then.
func (p *Page) forgetLater() {
	v := &p.private
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.later != nil {
		v.later.Stop()
	}
	v.later = time.AfterFunc(cmp.Or(v.wait, privateTime), func() {
		if p.events.empty() {
			p.spawn(p.forgetPrivate)
		}
	})
}

func (p *Page) forgetPrivate() {
	ctx, cancel := p.lasting()
	defer cancel()
	list, err := p.private.chats.Chats(ctx, store.List{})
	for i := 0; i < len(list) && err == nil; i++ {
		err = p.dropChat(ctx, list[i].ID)
	}
	if err != nil {
		p.log.Warn("private chats not deleted", "err", err)
	}
}
