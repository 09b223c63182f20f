package model

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"godwit/engine/gguf"
)

// unknown returns the error about an unregistered architecture. It names the registered
// architecture that reads most of the file's tensors, and the differences.
func unknown(f *gguf.File) error {
	err := fmt.Errorf("%w %.80q", ErrArch, f.Arch())
	if near, ok := nearest(f); ok {
		err = fmt.Errorf("%w; its nearest relative is %s, which %s", err, near.arch, near.difference())
	}
	return fmt.Errorf("%w; supported: %s", err, strings.Join(Archs(), ", "))
}

// relative is the result of opening a file as another architecture.
type relative struct {
	arch    string
	reads   int      // number of the file's tensors that the architecture reads
	lacks   []string // tensors that are missing or have another shape
	ignores []string // tensors of the file that the architecture does not read
}

func (r *relative) score() int { return r.reads - len(r.lacks) - len(r.ignores) }

// nearest tries the Openers of all architectures. ok is false if none reads
// half of the file's tensors.
func nearest(f *gguf.File) (best relative, ok bool) {
	for _, name := range Archs() {
		a := archs[name]
		file := NewFile(f)
		file.arch, file.trial = name, true
		_, _ = a.Open(file) // errors are ignored; file.missing lists the missing tensors
		r := relative{arch: name, reads: len(file.used), lacks: file.missing}
		for _, tensor := range file.Unbound() {
			if a.needs(tensor) {
				r.ignores = append(r.ignores, tensor)
			}
		}
		if best.arch == "" || cmp.Or(cmp.Compare(r.score(), best.score()), cmp.Compare(alike(name, f.Arch()), alike(best.arch, f.Arch()))) > 0 {
			best = r
		}
	}
	return best, best.reads > 0 && 2*best.reads >= len(f.Tensors)
}

// alike returns the length of the common prefix of two names.
func alike(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func (r *relative) difference() string {
	var parts []string
	if list := kinds(r.lacks); list != "" {
		parts = append(parts, "misses "+list)
	}
	if list := kinds(r.ignores); list != "" {
		parts = append(parts, "does not read "+list)
	}
	if len(parts) == 0 {
		return "reads tensors of the same names, though it may compute something else"
	}
	return strings.Join(parts, " and ")
}

var blockName = regexp.MustCompile(`\bblk\.\d+\.`)

// kinds lists tensors by name. Tensors that differ only by their block are listed once.
func kinds(names []string) string {
	var list []string
	for _, name := range names {
		if name = fmt.Sprintf("%.80s", blockName.ReplaceAllString(name, "blk.N.")); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	const most = 8
	text := strings.Join(list[:min(len(list), most)], ", ")
	if n := len(list) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
