package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxRequests is the largest limit of requests a minute.
const maxRequests = 100000

// ErrRevoked ends the requests of a key that was revoked.
var ErrRevoked = errors.New("the API key was revoked")

// LimitError is the error for a request beyond a limit of its key.
type LimitError struct {
	Name  string        // name of the key
	What  string        // the limit, such as "60 requests a minute"
	Retry time.Duration // after this time a request can succeed
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("API key %s has reached its limit of %s", e.Name, e.What)
}

// Grant holds the limits and the usage of a key. A nil Grant allows everything.
type Grant struct {
	life context.Context // ends when the key is revoked
	end  context.CancelFunc

	mu     sync.Mutex
	key    Key
	recent []time.Time // times of the newest requests, at most as many as the limit; the oldest is at next
	next   int
	day    string // day for which tokens is counted
	tokens int64
	fresh  bool // tokens has changed since it was saved
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// set changes the key and its limits.
func (g *Grant) set(k Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.Requests != g.key.Requests {
		g.recent, g.next = nil, 0
	}
	g.key = k
}

// Name returns the name of the key, or "".
func (g *Grant) Name() string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.key.Name
}

// cache returns the limit of cache bytes, or 0.
func (g *Grant) cache() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.key.Cache
}

// Admit counts a request, or returns a *LimitError.
func (g *Grant) Admit(now time.Time) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.exhausted(now, 1); err != nil {
		return err
	}
	n := g.key.Requests
	if n == 0 {
		return nil
	}
	if len(g.recent) < n {
		g.recent = append(g.recent, now)
		return nil
	}
	if since := now.Sub(g.recent[g.next]); since < time.Minute {
		return &LimitError{Name: g.key.Name, What: fmt.Sprintf("%d requests a minute", n), Retry: time.Minute - since}
	}
	g.recent[g.next] = now
	g.next = (g.next + 1) % n
	return nil
}

// exhausted returns the error for a request that needs n tokens if the limit of the
// day does not allow them. The caller holds g.mu.
func (g *Grant) exhausted(now time.Time, n int) error {
	if g.key.Tokens == 0 || g.onDay(now)+int64(n) <= g.key.Tokens {
		return nil
	}
	u := now.UTC()
	midnight := time.Date(u.Year(), u.Month(), u.Day()+1, 0, 0, 0, 0, time.UTC)
	return &LimitError{Name: g.key.Name, What: fmt.Sprintf("%d tokens a day", g.key.Tokens), Retry: midnight.Sub(now)}
}

// onDay returns the tokens used on the day of now. The caller holds g.mu.
func (g *Grant) onDay(now time.Time) int64 {
	if d := day(now); g.day != d {
		g.day, g.tokens = d, 0
	}
	return g.tokens
}

// Spend counts n tokens. If the limit of the day does not allow them, it counts nothing
// and returns a *LimitError.
func (g *Grant) Spend(now time.Time, n int) error {
	if g == nil || n <= 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.exhausted(now, n); err != nil {
		return err
	}
	g.tokens, g.fresh = g.onDay(now)+int64(n), true
	return nil
}

// usedOn returns the tokens used on a day, and whether they have changed since the
// last call.
func (g *Grant) usedOn(d string) (n int64, fresh bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh, g.fresh = g.fresh, false
	if g.day != d {
		return 0, fresh
	}
	return g.tokens, fresh
}

// Limited reports whether the key has a limit. Such a key can use models, but cannot
// change the server for others.
func (g *Grant) Limited() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.key.Models) > 0 || g.key.Requests > 0 || g.key.Tokens > 0 || g.key.Cache > 0
}

// Allows reports whether the key may use a model.
func (g *Grant) Allows(model string) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.key.Models) == 0 || slices.ContainsFunc(g.key.Models, func(want string) bool {
		if begin, ok := strings.CutSuffix(want, "*"); ok {
			return strings.HasPrefix(model, begin)
		}
		return want == model
	})
}

// While returns a context that ends when the key is revoked.
func (g *Grant) While(ctx context.Context) (context.Context, context.CancelFunc) {
	if g == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, grantKey{}, g))
	stop := context.AfterFunc(g.life, func() { cancel(ErrRevoked) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

type grantKey struct{}

// Of returns the grant of a request's context, or nil.
func Of(ctx context.Context) *Grant {
	g, _ := ctx.Value(grantKey{}).(*Grant)
	return g
}
