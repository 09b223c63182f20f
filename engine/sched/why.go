package sched

import (
	"fmt"
	"slices"
	"time"

	"godwit/engine/kv"
	"godwit/engine/prefix"
)

// Reuse describes how much of a prompt is not read again, and why it is not
// more.
type Reuse struct {
	Stats
	Alike   int       // leading tokens that are known from another text with the same key
	Borders []int     // positions at which messages end
	Roles   []string  // roles of the messages between Borders; shorter or "" where unknown
	Exact   bool      // the cache has exact pages
	Evicted time.Time // time when the store dropped the page after these tokens; zero if it is not known to have had that page
	prefix.Elsewhere
}

// End returns the position at which reuse ends, and the reason. The reason
// contains no prompt text.
func (r *Reuse) End() (pos int, why string) {
	alike := min(r.Alike, r.Prompt)
	switch {
	case r.Cached >= (r.Prompt-1)/kv.PageCells*kv.PageCells:
		return r.Cached, "all but the last page"
	case alike-r.Cached >= kv.PageCells && r.Exact:
		return r.Cached, fmt.Sprintf("exact form gone between %d and %d", r.Cached, alike)
	case alike-r.Cached >= kv.PageCells:
		return r.Cached, fmt.Sprintf("no reuse point between %d and %d", r.Cached, alike)
	case !r.Evicted.IsZero():
		return r.Cached, "evicted " + ago(time.Since(r.Evicted))
	case r.Elsewhere.Tokens >= alike+kv.PageCells:
		return r.Cached, r.origin()
	case alike < kv.PageCells:
		return r.Cached, "nothing begins alike"
	}
	return alike, fmt.Sprintf("differs at %d%s", alike, r.message(alike))
}

// origin describes what the stored beginning of the text was computed with.
func (r *Reuse) origin() string {
	what := "other settings"
	switch {
	case r.Model:
		what = "other model file"
	case r.Types != "":
		return fmt.Sprintf("other cache type, known up to %d with %s", r.Elsewhere.Tokens, r.Types)
	}
	return fmt.Sprintf("%s, known up to %d", what, r.Elsewhere.Tokens)
}

// message describes the message that contains a position.
func (r *Reuse) message(pos int) string {
	if len(r.Borders) == 0 {
		return ""
	}
	k, at := slices.BinarySearch(r.Borders, pos)
	if at {
		k++
	}
	where := fmt.Sprintf("part %d of %d", k+1, len(r.Borders)+1)
	if k < len(r.Roles) && r.Roles[k] != "" {
		return fmt.Sprintf(", in the %s message, %s", r.Roles[k], where)
	}
	return ", in " + where
}

// ago formats a time span as "… ago".
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	}
	return fmt.Sprintf("%d h ago", d/time.Hour)
}
