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
	shift  int // codes are 1<<shift too large; 0 if they are right
	top    int // largest magnitude of a code in the products

	codes codes
	nib   int // offset of the nibbles in a group
	plane int // offset of the 1-bit codes in a group, -1 for none
	table *[16]int8
	grid  bool // a table at the start of each block, whose levels are 64 too large
	scale scaleKind
}

// codes is the encoding of 32 columns.
type codes int

const (
	nibbles codes = iota
	crumbs        // two bits
	sixes
	bytesOf // bytes, plus 128
)

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

var (
	levelsNL = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	levelsMX = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

var formList = []form{
	{name: "Q4_0", blk: 288, grp: 256, first: 32, subs: 1, shift: 3, top: 15, plane: -1},
	{name: "Q4_1", blk: 320, grp: 256, first: 64, subs: 1, mins: true, top: 15, plane: -1},
	{name: "Q5_0", blk: 352, grp: 320, first: 32, subs: 1, shift: 4, top: 31, nib: 64},
	{name: "Q5_1", blk: 384, grp: 320, first: 64, subs: 1, mins: true, top: 31, nib: 64},
	{name: "Q8_0", blk: 544, grp: 512, first: 32, subs: 1, top: 128, plane: -1, codes: bytesOf},
	{name: "IQ4_NL", blk: 288, grp: 256, first: 32, subs: 1, top: 127, plane: -1, table: &levelsNL},
	{name: "MXFP4", blk: 272, grp: 256, first: 16, subs: 1, top: 12, plane: -1, table: &levelsMX, scale: scaleE8},
	{name: "Q2_K", blk: 1344, grp: 128, first: 320, subs: 8, halves: true, mins: true, top: 3, plane: -1, codes: crumbs, scale: scale4x2},
	{name: "Q3_K", blk: 1760, grp: 192, first: 224, subs: 8, halves: true, shift: 2, top: 7, plane: 128, codes: crumbs, scale: scale6},
	{name: "Q4_K", blk: 2304, grp: 256, first: 256, subs: 8, mins: true, top: 15, plane: -1, scale: scale6x2},
	{name: "Q5_K", blk: 2816, grp: 320, first: 256, subs: 8, mins: true, top: 31, nib: 64, scale: scale6x2},
	{name: "Q6_K", blk: 3360, grp: 384, first: 288, subs: 8, halves: true, shift: 5, top: 63, plane: -1, codes: sixes, scale: scaleI8},
	{name: "IQ4_XS", blk: 2176, grp: 256, first: 128, subs: 8, top: 127, plane: -1, table: &levelsNL, scale: scaleXS},
	{
		name: "Grid", types: []string{"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0"},
		blk: 2384, grp: 256, first: 336, subs: 8, halves: true, top: 63, plane: -1, grid: true, scale: scaleGrid,
	},
}

// cases returns the types of a case in a switch.
func (f *form) cases() string {
	if len(f.types) == 0 {
		return "dtype." + f.name
	}
	return "dtype." + strings.Join(f.types, ", dtype.")
}
