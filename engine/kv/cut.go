package kv

import "sync"

// Cut makes the forms of a type that divides heads into blocks of several
// sizes. The largest blocks that fit come first. The rest becomes a padded
// block of the smallest size.
type Cut struct {
	blocks []*Type // simple forms, largest first
	mu     sync.Mutex
	forms  map[int]*Type // forms made so far, by head size; kept because a layout compares forms by address
}

func newCut(blocks []*Type) *Cut { return &Cut{blocks: blocks, forms: map[int]*Type{}} }

// form returns the form for heads of headDim values. It is a single block if one
// fits.
func (c *Cut) form(headDim int) *Type {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.forms[headDim]; f != nil {
		return f
	}
	last := c.blocks[len(c.blocks)-1]
	f := &Type{Name: last.Name, Note: last.Note, Rules: last.Rules, Normalised: last.Normalised}
	for left := headDim; left > 0; {
		block := last
		for _, b := range c.blocks {
			if b.Elems <= left {
				block = b
				break
			}
		}
		n := min(block.Elems, left)
		f.Join = append(f.Join, Piece{block, n})
		left -= n
	}
	if len(f.Join) == 1 && f.Join[0].Dim == f.Join[0].Form.Elems {
		f = f.Join[0].Form
	}
	c.forms[headDim] = f
	return f
}
