package layout

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"godwit/engine/kv"
)

// changes collects how the requested types were changed, so that each change is
// reported once.
type changes struct {
	order []change
	at    map[change][]int // layers of each change
	level map[change]slog.Level
}

type change struct {
	side     kv.Side
	from, to *kv.Type
	reason   string
}

// note records one side of one layer, unless the requested type is used
// unchanged.
func (c *changes) note(layer int, s kv.Side, want *kv.Type, ch *choice, y *Side) {
	if y.Reason == "" {
		return
	}
	if c.at == nil {
		c.at, c.level = map[change][]int{}, map[change]slog.Level{}
	}
	key := change{s, want, ch.t, ch.reason}
	if _, ok := c.at[key]; !ok {
		c.order = append(c.order, key)
		c.level[key] = ch.level
	}
	c.at[key] = append(c.at[key], layer)
}

// events appends one line per change to the layout.
func (c *changes) events(l *Layout) {
	for _, key := range c.order {
		text := fmt.Sprintf("kv: %v %s -> %s (%s)", key.side, key.from.Name, key.to.Name, key.reason)
		if key.from == key.to {
			text = fmt.Sprintf("kv: %v %s (%s)", key.side, key.from.Name, key.reason)
		}
		l.Events = append(l.Events, Event{
			Level: c.level[key], Text: text,
			Attrs: []slog.Attr{slog.String("layer", ranges(c.at[key]))},
		})
	}
	for g := range l.Groups {
		if x := l.Groups[g].Exact; x.Budget != nil {
			l.Events = append(l.Events, x.Budget.event(l, g))
		} else if x != (Window{}) {
			l.Events = append(l.Events, Event{
				Level: slog.LevelInfo, Text: fmt.Sprintf("kv: the newest %d and the first %d tokens are also kept exact", x.Newest, x.Pinned),
				Attrs: []slog.Attr{slog.String("layer", ranges(l.Groups[g].Layers))},
			})
		}
	}
	l.count()
}

// count appends the number of caches of each type, in order of appearance.
func (l *Layout) count() {
	type pair struct{ k, v string }
	var order []pair
	n := map[pair]int{}
	for i := range l.Layers {
		y := &l.Layers[i]
		if y.K.Active == nil || y.Share >= 0 {
			continue
		}
		p := pair{y.K.Active.Name, y.V.Active.Name}
		if n[p]++; n[p] == 1 {
			order = append(order, p)
		}
	}
	for _, p := range order {
		l.Events = append(l.Events, Event{
			Level: slog.LevelInfo, Text: fmt.Sprintf("kv: caches of one kind: %d", n[p]),
			Attrs: []slog.Attr{slog.String("kv_k", p.k), slog.String("kv_v", p.v)},
		})
	}
}

// ranges writes ascending numbers as "0-3,7".
func ranges(n []int) string {
	var b strings.Builder
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(n[j]))
		}
		i = j + 1
	}
	return b.String()
}

// event describes the exact window of a group with a budget.
func (b *Budget) event(l *Layout, g int) Event {
	all := min(b.whole(), l.reach())
	text := fmt.Sprintf("kv: all tokens are kept exact up to %d", all)
	if all < l.reach() {
		text += fmt.Sprintf(", then fewer, at %d the newest %d", l.reach(), l.Groups[g].Exact.at(l.reach()-1))
	}
	if n := l.Groups[g].Exact.Pinned; n > 0 {
		text += fmt.Sprintf("; the first %d always", n)
	}
	return Event{Level: slog.LevelInfo, Text: text, Attrs: []slog.Attr{
		slog.Int64("bytes", b.Bytes), slog.String("layer", ranges(l.Groups[g].Layers)),
	}}
}
