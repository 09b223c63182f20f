package prefix

import (
	"slices"

	"godwit/engine/llm"
)

// newestPoints is the number of newest points of a text that are always kept.
const newestPoints = 16

// thin drops points before a new one, so that they become sparser towards the beginning. The first
// and the newest points stay, and between them one for each doubling of the distance from the end.
// The last point before a branch to another text also stays.
func (s *Store) thin(n *node) {
	var list []*node // the nearest points first
	parts := map[*node]bool{}
	next := n.tokens // tokens after a page of the chain
	for at := s.nodes[n.parent]; at != nil; next, at = at.tokens, s.nodes[at.parent] {
		here := onTheWay(at.points, next)
		here = slices.DeleteFunc(here, func(p *node) bool { return p == n })
		list = append(list, here...)
		if at.kids-len(at.points) > 1 && len(here) > 0 { // more than one text continues after this page
			parts[here[0]] = true
		}
	}
	if len(list) <= newestPoints {
		return
	}
	last := n.pos() - list[newestPoints-1].pos()
	for _, p := range list[newestPoints : len(list)-1] {
		switch distance := n.pos() - p.pos(); {
		case parts[p]:
		case distance >= 2*last:
			last = distance
		default:
			s.drop(&s.mem, p)
			s.drop(&s.held, p)
		}
	}
}

// onTheWay returns the points of a page whose tokens are a prefix of next, the
// longest first.
func onTheWay(points []*node, next []llm.Token) (list []*node) {
	for _, p := range points {
		if k := len(p.tokens); k <= len(next) && slices.Equal(p.tokens, next[:k]) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *node) int { return len(b.tokens) - len(a.tokens) })
	return list
}
