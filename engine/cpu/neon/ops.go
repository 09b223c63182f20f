package neon

import (
	"fmt"
	"strings"
)

// op is a vector instruction with every register and number set to zero. Source
// of the encodings: Arm Architecture Reference Manual (DDI 0487), C7.2.
type op struct {
	word uint32
	form string // destination and sources; empty if all have the arrangement of the name
	name string // spelling in Go's assembler; empty if it has none
}

// three are instructions with two sources. In form, a source that ends in [] is
// one element.
var three = map[string]op{
	"add.16b":    {0x4e208400, "", "VADD"},
	"add.4s":     {0x4ea08400, "", "VADD"},
	"sub.4s":     {0x6ea08400, "", "VSUB"},
	"sub.16b":    {0x6e208400, "", "VSUB"},
	"and.16b":    {0x4e201c00, "", "VAND"},
	"orr.16b":    {0x4ea01c00, "", "VORR"},
	"eor.16b":    {0x6e201c00, "", "VEOR"},
	"bic.16b":    {0x4e601c00, "", ""},
	"bit.16b":    {0x6ea01c00, "", "VBIT"},
	"bif.16b":    {0x6ee01c00, "", "VBIF"},
	"bsl.16b":    {0x6e601c00, "", "VBSL"},
	"fadd.4s":    {0x4e20d400, "", ""},
	"fsub.4s":    {0x4ea0d400, "", ""},
	"fmul.4s":    {0x6e20dc00, "", ""},
	"fdiv.4s":    {0x6e20fc00, "", ""},
	"fmla.4s":    {0x4e20cc00, "", "VFMLA"},
	"fmls.4s":    {0x4ea0cc00, "", "VFMLS"},
	"fmax.4s":    {0x4e20f400, "", ""},
	"fmin.4s":    {0x4ea0f400, "", ""},
	"fmaxnm.4s":  {0x4e20c400, "", ""},
	"fmaxnmp.4s": {0x6e20c400, "", ""},
	"fcmeq.4s":   {0x4e20e400, "", ""},
	"fcmge.4s":   {0x6e20e400, "", ""},
	"fcmgt.4s":   {0x6ea0e400, "", ""},
	"cmtst.4s":   {0x4ea08c00, "", "VCMTST"},
	"umin.8h":    {0x6e606c00, "", "VUMIN"},
	"sabd.8h":    {0x4e607400, "", ""},
	"sub.8h":     {0x6e608400, "", "VSUB"},
	"mul.8h":     {0x4e609c00, "", ""},
	"uqadd.8h":   {0x6e600c00, "", ""},
	"cmhi.8h":    {0x6e603400, "", ""},
	"trn1.2d":    {0x4ec02800, "", "VTRN1"},
	"trn2.2d":    {0x4ec06800, "", "VTRN2"},
	"umax.4s":    {0x6ea06400, "", "VUMAX"},
	"umax.8h":    {0x6e606400, "", "VUMAX"},
	"umin.4s":    {0x6ea06c00, "", "VUMIN"},
	"smax.4s":    {0x4ea06400, "", ""},
	"addp.4s":    {0x4ea0bc00, "", "VADDP"},
	"ushl.4s":    {0x6ea04400, "", ""},
	"ushl.16b":   {0x6e204400, "", ""},
	"mla.4s":     {0x4ea09400, "", ""},
	"zip1.4s":    {0x4e803800, "", "VZIP1"},
	"zip2.4s":    {0x4e807800, "", "VZIP2"},
	"uzp1.4s":    {0x4e801800, "", "VUZP1"},
	"uzp2.4s":    {0x4e805800, "", "VUZP2"},
	"trn1.4s":    {0x4e802800, "", "VTRN1"},
	"trn2.4s":    {0x4e806800, "", "VTRN2"},
	"sdot":       {0x4e809400, "4s 16b 16b", ""},
	"udot":       {0x6e809400, "4s 16b 16b", ""},
	"smull":      {0x0e20c000, "8h 8b 8b", ""},
	"smull2":     {0x4e20c000, "8h 16b 16b", ""},
	"smlal":      {0x0e208000, "8h 8b 8b", ""},
	"smlal2":     {0x4e208000, "8h 16b 16b", ""},
	"umull":      {0x2e20c000, "8h 8b 8b", ""},
	"umull2":     {0x6e20c000, "8h 16b 16b", ""},
}

// byElement are instructions whose last source is one element of a register.
var byElement = map[string]op{
	"fmla": {0x4f801000, "4s 4s s", ""},
	"fmls": {0x4f805000, "4s 4s s", ""},
	"fmul": {0x4f809000, "4s 4s s", ""},
	"sdot": {0x4f80e000, "4s 16b 4b", ""},
	"udot": {0x6f80e000, "4s 16b 4b", ""},
}

// two are instructions with one source.
var two = map[string]op{
	"sadalp.4s":  {0x4e606800, "4s 8h", ""},
	"saddlp.4s":  {0x4e602800, "4s 8h", ""},
	"uadalp.4s":  {0x6e606800, "4s 8h", ""},
	"uaddlp.4s":  {0x6e602800, "4s 8h", ""},
	"scvtf.4s":   {0x4e21d800, "", ""},
	"fcvtns.4s":  {0x4e21a800, "", ""},
	"fcvtl":      {0x0e217800, "4s 4h", ""},
	"fcvtl2":     {0x4e217800, "4s 8h", ""},
	"fcvtn":      {0x0e216800, "4h 4s", ""},
	"fcvtn2":     {0x4e216800, "8h 4s", ""},
	"fcmeq.0":    {0x4ea0d800, "4s 4s 0.0", ""}, // equal to zero
	"fcmlt.0":    {0x4ea0e800, "4s 4s 0.0", ""}, // below zero
	"rshrn.8b":   {0x0f088c00, "8b 8h 8", ""},   // by 8
	"rshrn2":     {0x4f088c00, "16b 8h 8", ""},
	"fabs.4s":    {0x4ea0f800, "", ""},
	"fneg.4s":    {0x6ea0f800, "", ""},
	"frintn.4s":  {0x4e218800, "", ""},
	"fcvtas.4s":  {0x4e21c800, "", ""},
	"sqxtun.4h":  {0x2e612800, "4h 4s", ""},
	"sqxtun2.8h": {0x6e612800, "8h 4s", ""},
	"uqxtn.8b":   {0x2e214800, "8b 8h", ""},
	"uqxtn2":     {0x6e214800, "16b 8h", ""},
	"xtn.4h":     {0x0e612800, "4h 4s", ""},
	"xtn2.8h":    {0x4e612800, "8h 4s", ""},
	"xtn.8b":     {0x0e212800, "8b 8h", ""},
	"xtn2.16b":   {0x4e212800, "16b 8h", ""},
	"addv.4s":    {0x4eb1b800, "s 4s", ""},
	"umaxv.4s":   {0x6eb0a800, "s 4s", ""},
	"uminv.8h":   {0x6e71a800, "h 8h", ""},
	"shll":       {0x2e613800, "4s 4h 16", ""},
}

// shifts are instructions with one source and a number of bits.
var shifts = map[string]op{
	"ushr.16b": {0x6f080400, "", "VUSHR"},
	"ushr.4s":  {0x6f200400, "", "VUSHR"},
	"sshr.4s":  {0x4f200400, "", ""},
	"shl.16b":  {0x4f085400, "", "VSHL"},
	"shl.4s":   {0x4f205400, "", "VSHL"},
	"sri.16b":  {0x6f084400, "", "VSRI"},
	"ushll":    {0x2f08a400, "8h 8b", ""},
	"ushll.4s": {0x2f10a400, "4s 4h", ""},
	"sshll":    {0x0f08a400, "8h 8b", ""},
	"sshll.4s": {0x0f10a400, "4s 4h", ""},
}

func find(ops map[string]op, name string) op {
	o, ok := ops[name]
	if !ok {
		panic("neon: no instruction " + name)
	}
	return o
}

// arrangements returns the instruction in name without its arrangement, and the
// arrangements of its n operands.
func (o op) arrangements(name string, n int) (base string, forms []string) {
	base, last, _ := strings.Cut(name, ".")
	if o.form != "" {
		return base, strings.Fields(o.form)
	}
	for range n {
		forms = append(forms, last)
	}
	return base, forms
}

// swapped returns an arrangement in the spelling of Go's assembler.
func swapped(form string) string {
	unit := form[len(form)-1:]
	return strings.ToUpper(unit) + form[:len(form)-1]
}

// V writes an instruction with two sources; name is the instruction with the
// arrangement of its operands.
func (f *File) V(name string, dst, n, m V) {
	o := find(three, name)
	base, a := o.arrangements(name, 3)
	if o.name != "" {
		f.Op("%s V%d.%s, V%d.%s, V%d.%s", o.name, int(m), swapped(a[2]), int(n), swapped(a[1]), int(dst), swapped(a[0]))
		return
	}
	f.word(o.word|uint32(m)<<16|uint32(n)<<5|uint32(dst), "%s v%d.%s, v%d.%s, v%d.%s", base, int(dst), a[0], int(n), a[1], int(m), a[2])
}

// Look writes a table look-up. The bytes of m index a table of several
// registers, starting at table. Indices beyond the table give 0.
func (f *File) Look(dst, table V, registers int, m V) {
	f.look("tbl", 0x4e000000, dst, table, registers, m)
}

// LookOn is like Look, but indices beyond the table leave the byte unchanged.
func (f *File) LookOn(dst, table V, registers int, m V) {
	f.look("tbx", 0x4e001000, dst, table, registers, m)
}

func (f *File) look(name string, w uint32, dst, table V, registers int, m V) {
	var list []string
	for i := range registers {
		list = append(list, fmt.Sprintf("v%d.16b", int(table)+i))
	}
	w |= uint32(registers-1)<<13 | uint32(m)<<16 | uint32(table)<<5 | uint32(dst)
	f.word(w, "%s v%d.16b, {%s}, v%d.16b", name, int(dst), strings.Join(list, ", "), int(m))
}

// ByElement writes an instruction whose second source is element i of m.
func (f *File) ByElement(name string, dst, n, m V, i int) {
	o := find(byElement, name)
	_, a := o.arrangements(name, 3)
	w := o.word | uint32(i&1)<<21 | uint32(i>>1)<<11 | uint32(m)<<16 | uint32(n)<<5 | uint32(dst)
	f.word(w, "%s v%d.%s, v%d.%s, v%d.%s[%d]", name, int(dst), a[0], int(n), a[1], int(m), a[2], i)
}

// Dup copies element i of n into every lane.
func (f *File) Dup(dst, n V, i int) {
	f.Op("VDUP V%d.S[%d], V%d.S4", int(n), i, int(dst))
}

// N writes an instruction of one source.
func (f *File) N(name string, dst, n V) {
	o := find(two, name)
	base, a := o.arrangements(name, 2)
	if o.name != "" {
		f.Op("%s V%d.%s, V%d.%s", o.name, int(n), swapped(a[1]), int(dst), swapped(a[0]))
		return
	}
	to := fmt.Sprintf("v%d.%s", int(dst), a[0])
	if a[0] == "s" || a[0] == "h" {
		to = fmt.Sprintf("%s%d", a[0], int(dst))
	}
	bits := ""
	if len(a) > 2 {
		bits = ", #" + a[2]
	}
	f.word(o.word|uint32(n)<<5|uint32(dst), "%s %s, v%d.%s%s", base, to, int(n), a[1], bits)
}

// Shift writes a shift by a number of bits.
func (f *File) Shift(name string, dst, n V, by int) {
	o := find(shifts, name)
	base, a := o.arrangements(name, 2)
	if o.name != "" {
		f.Op("%s $%d, V%d.%s, V%d.%s", o.name, by, int(n), swapped(a[1]), int(dst), swapped(a[0]))
		return
	}
	code := uint32(by)
	if strings.Contains(base, "shr") {
		code = o.word>>16&0x3f - code
	}
	f.word(o.word+code<<16|uint32(n)<<5|uint32(dst), "%s v%d.%s, v%d.%s, #%d", base, int(dst), a[0], int(n), a[1], by)
}

// Ext writes 16 bytes of the concatenation of n and m, starting at byte by.
func (f *File) Ext(dst, n, m V, by int) {
	f.Op("VEXT $%d, V%d.B16, V%d.B16, V%d.B16", by, int(m), int(n), int(dst))
}
