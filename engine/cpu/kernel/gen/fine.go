package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// again is what a kernel needs to go over a panel twice with the same code:
// once for each plane of the activations.
type again struct {
	base Mem // start of the panel
	left Mem // planes still to come
}

func (a *asm) newAgain() again {
	loc := a.AllocLocal(16)
	return again{loc, loc.Offset(8)}
}

// reset prepares for the first plane.
func (a *asm) reset(f again) { a.MOVQ(U32(1), f.left) }

// second goes back to block for the second plane, or falls through after it.
// RSI is the start of the panel before and after.
func (a *asm) second(f again, block string) {
	end := a.label("end")
	a.MOVQ(f.left, reg.RAX)
	a.TESTQ(reg.RAX, reg.RAX)
	a.JEQ(LabelRef(end))
	a.MOVQ(U32(0), f.left)
	a.ld("fine", reg.RBX)
	a.ld("blocks", reg.RCX)
	a.JMP(LabelRef(block))
	a.Label(end)
}
