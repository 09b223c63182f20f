package prefix

import "time"

// mostGone is the largest number of dropped pages that a store remembers.
const mostGone = 1 << 13

// gone remembers the pages that were dropped most recently, with the time. The
// keys reveal nothing without the text and the secret.
type gone struct {
	at    map[Key]time.Time
	order []Key // ring buffer
	next  int
}

// add records that a page was dropped.
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
