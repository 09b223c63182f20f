package shaders

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"godwit/engine/dtype"
)

// Instance is a kernel with its constants, which can be compiled.
type Instance struct {
	Kernel    *Kernel
	Constants Constants
}

// Name identifies an instance by the kernel and its constants in alphabetical
// order.
func (i Instance) Name() string {
	var b strings.Builder
	b.WriteString(i.Kernel.Name)
	for _, name := range slices.Sorted(maps.Keys(i.Constants)) {
		fmt.Fprintf(&b, " %s=%d", name, i.Constants[name])
	}
	return b.String()
}

// MMA reports whether an instance needs a device that supports the dialect's
// mma. NVIDIA cards support it from compute capability 8.0 on, and so does the
// emulator.
func (i Instance) MMA() bool { return i.Constants["MMA"] == 1 }

// Hash returns a hash of the source and of everything else that affects its
// compilation. Comments and empty lines do not affect it.
func (i Instance) Hash(flags ...string) (string, error) {
	text, err := i.Kernel.Source(i.Constants)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256([]byte(strings.Join(append(flags, bare(text)), "\x00")))
	return hex.EncodeToString(h[:16]), nil
}

// bare returns a source without comments, empty lines and spaces at line ends.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Matvecs are the values of the constant ROWS in matvec.
var Matvecs = []int{1, 2, 4, 8}

// Instances lists the instances that are compiled in advance, sorted by name.
func Instances() []Instance {
	seen := map[string]Instance{}
	add := func(kernel string, c Constants) {
		i := Instance{Find(kernel), c}
		seen[i.Name()] = i
	}
	for i := range Kernels {
		if len(Kernels[i].Constants) == 0 {
			add(Kernels[i].Name, nil)
		}
	}
	for _, w := range slices.Sorted(maps.Keys(weights)) {
		weightInstances(w, add)
	}
	for _, n := range RouteExperts {
		add("route", Constants{"EXPERTS": n})
	}
	cacheInstances(add)
	var list []Instance
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		list = append(list, seen[name])
	}
	return list
}

func weightInstances(w dtype.Type, add func(string, Constants)) {
	for _, n := range Matvecs {
		add("matvec", Constants{"WEIGHT": int(w), "ROWS": n})
	}
	add("expert", Constants{"WEIGHT": int(w), "ROWS": 1})
	add("embed", Constants{"WEIGHT": int(w)})
	add("matmul", Constants{"WEIGHT": int(w), "MMA": 0})
	add("matmul", Constants{"WEIGHT": int(w), "MMA": 1})
}
