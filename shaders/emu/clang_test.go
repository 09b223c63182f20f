//go:build linux || darwin

package emu

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"godwit/shaders"
)

// layer is a mode in which clang reads the header's Metal branch and every kernel,
// with testdata/metal_stdlib instead of Metal's own library.
type layer struct {
	name string
	args []string
	edit func(string) string
}

var layers = []layer{
	{
		// Pointers of different address spaces are different types in this mode.
		// C++ requires static shared arrays, but Metal does not allow the word.
		"c++14",
		[]string{"-x", "c++", "-std=c++14", "-DSPACES=1"},
		func(s string) string {
			return strings.Replace(s, "SHARED(T, name, n) threadgroup T", "SHARED(T, name, n) static threadgroup T", 1)
		},
	},
	{
		// Real address spaces, and OpenCL's rules for the placement of variables.
		"clc++2021",
		[]string{"-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-target", "spir64", "-DSPACES=0"},
		func(s string) string { return s },
	},
}

// compile returns clang's messages about a text.
func (l *layer) compile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kernel.metal")
	if err := os.WriteFile(file, []byte(l.edit(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"-fsyntax-only", "-D__METAL_VERSION__=300", "-I", "testdata", "-Wno-unknown-attributes", "-Wno-unknown-pragmas", "-Werror",
	}, l.args...)
	out, err := exec.Command("clang", append(args, file)...).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}

// needClang skips the test if clang is missing, except in CI.
func needClang(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("clang"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// TestMetal lets clang read every instance as Metal in both layers. The offsets of
// the parameter struct's fields are asserted to equal Go's.
func TestMetal(t *testing.T) {
	needClang(t)
	used := map[string]bool{}
	for _, i := range shaders.Instances() {
		used[i.Kernel.Name] = true
		if i.MMA() {
			i.Constants["MMA"] = 2 // Metal uses this instead
		}
		text, err := i.Kernel.Source(i.Constants)
		if err != nil {
			t.Fatal(err)
		}
		text += offsets(i.Kernel)
		t.Run(i.Name(), func(t *testing.T) {
			t.Parallel()
			for _, l := range layers {
				if out := l.compile(t, text); out != "" {
					t.Errorf("as %s:\n%s", l.name, head(out, 20))
				}
			}
		})
	}
	for _, k := range shaders.Kernels {
		if !used[k.Name] {
			t.Errorf("%s was not read", k.Name)
		}
	}
}

// offsets asserts that the device's field offsets equal Go's.
func offsets(k *shaders.Kernel) string {
	p := reflect.TypeOf(k.Params)
	var b strings.Builder
	fmt.Fprintf(&b, "static_assert(sizeof(%s_params) == %d, \"size\");\n", k.Name, p.Size())
	text, _ := k.Source(anyConstants(k.Name))
	_, fields, _ := strings.Cut(text, "struct "+k.Name+"_params {\n")
	for i, line := range strings.Split(fields, "\n")[:p.NumField()] {
		word := strings.Fields(strings.TrimSuffix(line, ";"))
		fmt.Fprintf(&b, "static_assert(__builtin_offsetof(%s_params, %s) == %d, \"%s\");\n", k.Name, word[1], p.Field(i).Offset, word[1])
	}
	return b.String()
}

// TestMetalFinds checks that each layer finds the errors that it is for.
func TestMetalFinds(t *testing.T) {
	needClang(t)
	text, err := shaders.Find("norm").Source(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, old, new string }{
		{"an address space that is missing", "FUNC float group_sum(float v, threadgroup float *room", "FUNC float group_sum(float v, float *room"},
		{"the wrong address space", "FUNC float group_sum(float v, threadgroup float *room", "FUNC float group_sum(float v, device float *room"},
		{"a write to an input", "sum[first + i] = v;", "sum[first + i] = v; r[first + i] = v;"},
		{"a write to the parameters", "uint first = ", "p.add = 0;\n\tuint first = "},
		{"a field that moved", "\tuint kind;\n", "\tuint spare;\n\tuint kind;\n"},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		if changed == text {
			t.Fatalf("%s: %q is not there", c.what, c.old)
		}
		if layers[0].compile(t, changed+offsets(shaders.Find("norm"))) == "" {
			t.Errorf("%s was not found", c.what)
		}
	}
}
