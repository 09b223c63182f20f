package api

import (
	"context"
	"time"

	"godwit/app/api/wire"
	"godwit/app/keys"
)

// limit returns the function that counts the tokens of a named key. It returns nil
// for other clients.
func limit(g *keys.Grant) func(tokens int) error {
	if g == nil {
		return nil
	}
	return func(tokens int) error { return g.Spend(time.Now(), tokens) }
}

// keyAttr returns the attribute of the request log for a named key.
func keyAttr(g *keys.Grant) []any {
	if g == nil {
		return nil
	}
	return []any{"key", g.Name()}
}

// granted returns a context for work that outlives its request. It ends when the key
// is revoked, and its tokens count for the key.
func granted(ctx context.Context, g *keys.Grant) (context.Context, context.CancelFunc) {
	ctx, stop := g.While(ctx)
	if _, ok := ctx.Value(wire.TallyKey{}).(*wire.Tally); !ok {
		ctx = context.WithValue(ctx, wire.TallyKey{}, &wire.Tally{Limit: limit(g)})
	}
	return ctx, stop
}
