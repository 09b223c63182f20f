package main

import "strings"

// form is a weight type as the matrix kernels see it; the layout is in the
// documentation of package kernel.
type form struct {
	name   string
	types  []string // types with this form; empty if the type has the same name
	blk    int      // bytes of a block of 16 rows
	grp    int      // bytes of a group of 32 columns
	first  int      // offset of the first group
	subs   int      // groups of a block
	halves bool     // one scale per 16 columns
	mins   bool
	shift  int // codes are stored plus 1<<shift; 0 for unsigned codes

	nib   int    // offset of the nibbles in a group, -1 for none
	crumb int    // offset of the 2-bit codes, -1 for none
	plane int    // offset of the 1-bit codes, -1 for none
	six   bool   // 6-bit codes, three chunks per 16 columns
	table string // table of levels; "block" for a table at the start of each block
	scale scaleKind
}

type scaleKind int

const (
	scaleF16  scaleKind = iota // float16, and a float16 minimum if mins
	scaleE8                    // a power of two in a byte
	scale6x2                   // Q4_K, Q5_K
	scaleI8                    // Q6_K
	scale4x2                   // Q2_K
	scale6                     // Q3_K
	scaleXS                    // IQ4_XS
	scaleGrid                  // float32 and a byte, after the table
)

var formList = []form{
	{name: "Q4_0", blk: 288, grp: 256, first: 32, subs: 1, shift: 3, nib: 0, crumb: -1, plane: -1},
	{name: "Q4_1", blk: 320, grp: 256, first: 64, subs: 1, mins: true, nib: 0, crumb: -1, plane: -1},
	{name: "Q5_0", blk: 352, grp: 320, first: 32, subs: 1, shift: 4, nib: 64, crumb: -1, plane: 0},
	{name: "Q5_1", blk: 384, grp: 320, first: 64, subs: 1, mins: true, nib: 64, crumb: -1, plane: 0},
	{name: "Q8_0", blk: 544, grp: 512, first: 32, subs: 1, shift: 7, nib: -1, crumb: -1, plane: -1},
	{name: "IQ4_NL", blk: 288, grp: 256, first: 32, subs: 1, shift: 7, nib: 0, crumb: -1, plane: -1, table: "levelsNL"},
	{name: "MXFP4", blk: 272, grp: 256, first: 16, subs: 1, shift: 4, nib: 0, crumb: -1, plane: -1, table: "levelsMX", scale: scaleE8},
	{name: "Q2_K", blk: 1344, grp: 128, first: 320, subs: 8, halves: true, mins: true, nib: -1, crumb: 0, plane: -1, scale: scale4x2},
	{name: "Q3_K", blk: 1760, grp: 192, first: 224, subs: 8, halves: true, shift: 2, nib: -1, crumb: 0, plane: 128, scale: scale6},
	{name: "Q4_K", blk: 2304, grp: 256, first: 256, subs: 8, mins: true, nib: 0, crumb: -1, plane: -1, scale: scale6x2},
	{name: "Q5_K", blk: 2816, grp: 320, first: 256, subs: 8, mins: true, nib: 64, crumb: -1, plane: 0, scale: scale6x2},
	{name: "Q6_K", blk: 3360, grp: 384, first: 288, subs: 8, halves: true, shift: 5, nib: -1, crumb: -1, plane: -1, six: true, scale: scaleI8},
	{name: "IQ4_XS", blk: 2176, grp: 256, first: 128, subs: 8, shift: 7, nib: 0, crumb: -1, plane: -1, table: "levelsNL", scale: scaleXS},
	{
		name: "Grid", types: []string{"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0"},
		blk: 2384, grp: 256, first: 336, subs: 8, halves: true, shift: 6, nib: 0, crumb: -1, plane: -1, table: "block", scale: scaleGrid,
	},
}

// cases returns the types of a case in a switch.
func (f *form) cases() string {
	if len(f.types) == 0 {
		return "dtype." + f.name
	}
	return "dtype." + strings.Join(f.types, ", dtype.")
}

// takes reports whether the type has a kernel of that shape. Types with a scale
// for every 16 columns need twice as many sums, so their kernels for two panels
// take fewer rows.
func (f *form) takes(s shape) bool { return s.panels == 1 || s.n == 4 == f.halves }

// nibbles reports whether the codes are plain nibbles.
func (f *form) nibbles() bool { return f.nib >= 0 && f.plane < 0 && f.table == "" }

// levels returns the stored (offset) codes of the 16 indices.
func (f *form) levels() (b [16]byte) {
	l := [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	if f.table == "levelsMX" {
		l = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
	}
	for i, v := range l {
		b[i] = byte(int(v) + 1<<f.shift)
	}
	return b
}
