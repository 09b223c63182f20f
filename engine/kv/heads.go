package kv

import (
	"errors"
	"fmt"
)

// ErrHead is the class of errors about a head size that a form does not
// support.
var ErrHead = errors.New("kv: head size does not fit")

// MaxHeadDim bounds head sizes, so that hostile ones cannot cause large
// allocations.
const MaxHeadDim = 1 << 14

// Form returns the encoding of t for a head size and side: t itself, or the
// variant that serves it.
func (t *Type) Form(headDim int, s Side) *Type {
	if t.Cut != nil && headDim > 0 && headDim <= MaxHeadDim {
		return t.Cut.form(headDim)
	}
	for _, v := range t.Variants {
		if v.Dim == headDim && headDim > 0 || v.Rotation > 0 && v.Rotation == rotationFor(headDim, s) {
			return v.Form
		}
	}
	return t
}

// holds reports whether t, a form, can store heads of headDim unchanged.
func (t *Type) holds(headDim int) bool {
	switch {
	case headDim <= 0 || headDim > MaxHeadDim:
		return false
	case t.Cut != nil:
		return true
	case t.Elems == 0:
		return false
	case t.Heads.Only != 0:
		return headDim == t.Heads.Only
	}
	for _, v := range t.Variants {
		if v.Dim == headDim {
			return true
		}
	}
	if t.Variants != nil && t.Variants[0].Dim > 0 { // a form of one size and its variants
		return headDim == t.Elems
	}
	return t.Heads.Pad || headDim%t.Elems == 0
}

// Hold returns the encoding with which t itself, without mapping or policy, stores
// a head of headDim values as K. kv encode and kv decode use it. If a head does not
// fit, it returns ErrHead.
func (t *Type) Hold(headDim int) (*Type, error) {
	if !t.holds(headDim) {
		return nil, fmt.Errorf("%w: %s %s, asked for %d", ErrHead, t.Name, t.sizes(), headDim)
	}
	return t.Form(headDim, K), nil
}

// Bits returns the bits per value of a head, padding and replacement included.
func (t *Type) Bits(headDim int, s Side) float64 {
	form := t.Fit(headDim, s).Form
	return 8 * float64(form.RowBytes(headDim)) / float64(headDim)
}

// CodeBits returns the bits of a value's code, without scales.
func (t *Type) CodeBits() int {
	if t.Cut != nil {
		return t.Cut.blocks[0].Codes.Bits
	}
	return t.Codes.Bits
}

// Nominal is the head size that descriptions of types use if no model sets one.
const Nominal = 128

// NominalBits returns the bits per value at that head size, on the side for
// which the type is meant: V if it does not support K.
func (t *Type) NominalBits() float64 {
	if t.Heads.K != "" {
		return t.Bits(Nominal, V)
	}
	return t.Bits(Nominal, K)
}

// sizes describes the head sizes that a form supports.
func (t *Type) sizes() string {
	switch {
	case t.Heads.Only != 0:
		return fmt.Sprintf("holds heads of %d", t.Heads.Only)
	case t.Variants != nil && t.Variants[0].Dim > 0:
		return fmt.Sprintf("holds heads of %d and %d", t.Elems, t.Variants[0].Dim)
	case t.Heads.Pad || t.Elems == 1:
		return fmt.Sprintf("holds heads of 1 to %d", MaxHeadDim)
	}
	return fmt.Sprintf("holds multiples of %d up to %d", t.Elems, MaxHeadDim)
}
