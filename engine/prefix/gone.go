package prefix

import "time"

// mostGone bounds the pages that a store knows to have given up.
const mostGone = 1 << 13

// gone is the newest pages that were given up, with the time. Their keys say
// nothing to those without the text and the secret.
type gone struct {
	at    map[Key]time.Time
	order []Key // a ring
	next  int
}

// add notes a page.
func (g *gone) add(key Key) {
	if g.at == nil {
		g.at = map[Key]time.Time{}
	}
	if _, known := g.at[key]; known {
		g.at[key] = time.Now()
		return
	}
	if len(g.order) < mostGone {
		g.order = append(g.order, key)
	} else {
		delete(g.at, g.order[g.next])
		g.order[g.next] = key
		g.next = (g.next + 1) % mostGone
	}
	g.at[key] = time.Now()
}
