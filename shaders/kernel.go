// Package shaders contains the GPU kernels. They are C++14 sources that use one
// portability header. They compile as Metal, CUDA, HIP and, for the emulator,
// plain C++. Backends, the emulator and the source checker all use the table
// Kernels.
//
//	k := shaders.Find("norm")
//	text, err := k.Source(nil)
//	params := shaders.Bytes(&shaders.NormParams{...})
//
// Metal cannot include files at run time, so Source concatenates the constants as
// #define lines, the header, the parameter struct as declared in Go, and the
// kernel's file.
//
// The glossary in engine/kv defines the terms used here.
package shaders

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// Dir is how a kernel uses a buffer.
type Dir uint8

// The directions.
const (
	In    Dir = iota // read
	Out              // written; elements that the launch does not cover are unchanged
	InOut            // both
	Sum              // added to atomically, so that launches with it may run in any order
)

// Arg is a buffer argument. Its index in Kernel.Args is its binding index. The
// parameter struct is bound after the last argument.
type Arg struct {
	Name string
	Elem string // name of the element type in the dialect: float, uint, int, ushort or uchar
	Dir  Dir
}

// Kernel is one entry point of the sources.
type Kernel struct {
	Name      string
	Files     []string // sources in the order in which they are joined; the last contains the kernel
	Args      []Arg
	Params    any      // zero value of the parameter struct, which has only 4-byte scalars
	Constants []string // names of all required Constants
	Group     int      // number of threads per threadgroup, along x; a multiple of 32

	// Resident is the minimum number of threadgroups that a processor of an NVIDIA
	// card should hold, which limits the registers of a thread. If it is 0, the
	// compiler balances registers against threadgroups, and may spill.
	Resident int
}

// Constants are sizes and choices that are compiled into a pipeline.
type Constants map[string]int

// Find returns the kernel with a name, or nil.
func Find(name string) *Kernel {
	for i := range Kernels {
		if Kernels[i].Name == name {
			return &Kernels[i]
		}
	}
	return nil
}

// Bytes returns a parameter struct as the device reads it.
func Bytes[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// Source returns the text of the kernel with its constants, which is the same for
// all platforms.
func (k *Kernel) Source(c Constants) (string, error) {
	if have, want := slices.Sorted(maps.Keys(c)), slices.Sorted(slices.Values(k.Constants)); !slices.Equal(have, want) {
		return "", fmt.Errorf("shaders: %s needs the constants %v, but got %v", k.Name, want, have)
	}
	var b strings.Builder
	for _, name := range k.Constants {
		fmt.Fprintf(&b, "#define %s %d\n", name, c[name])
	}
	fmt.Fprintf(&b, "#define THREADS %d\n", k.Group)
	if k.Resident > 0 {
		fmt.Fprintf(&b, "#define LAUNCH_BOUNDS THREADS, %d\n", k.Resident)
	} else {
		b.WriteString("#define LAUNCH_BOUNDS THREADS\n")
	}
	if err := appendFile(&b, "dialect.h"); err != nil {
		return "", err
	}
	if k.Params != nil {
		b.WriteString(k.declaration())
	}
	for _, name := range k.Files {
		if err := appendFile(&b, name); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// appendFile adds a source file. Lines are numbered as in the file.
func appendFile(b *strings.Builder, name string) error {
	text, err := sources.ReadFile(name)
	if err != nil {
		return fmt.Errorf("shaders: %w", err)
	}
	fmt.Fprintf(b, "#line 1 %q\n", name)
	b.Write(text)
	return nil
}

// scalars maps the field types of parameter structs to the dialect.
var scalars = map[reflect.Kind]string{reflect.Uint32: "uint", reflect.Int32: "int", reflect.Float32: "float"}

// declaration returns the declaration of a parameter struct in the dialect, with
// fields in snake case.
func (k *Kernel) declaration() string {
	t := reflect.TypeOf(k.Params)
	var b strings.Builder
	fmt.Fprintf(&b, "struct %s_params {\n", k.Name)
	for i := range t.NumField() {
		f := t.Field(i)
		fmt.Fprintf(&b, "\t%s %s;\n", scalars[f.Type.Kind()], snake(f.Name))
	}
	b.WriteString("};\n")
	return b.String()
}

// snake converts KVHeads to kv_heads.
func snake(name string) string {
	var b strings.Builder
	upper := func(i int) bool { return i >= 0 && i < len(name) && 'A' <= name[i] && name[i] <= 'Z' }
	for i := range len(name) {
		if upper(i) && i > 0 && (!upper(i-1) || i+1 < len(name) && !upper(i+1)) {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(name[i : i+1]))
	}
	return b.String()
}
