package shaders

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Patterns of code that the C++ compilers accept but Metal rejects.
var forbidden = []struct {
	what string
	re   *regexp.Regexp
}{
	{"a lambda", regexp.MustCompile(`\[[&=]?\]\s*\(|\[[&=]\w*\]`)},
	{"goto", regexp.MustCompile(`\bgoto\b`)},
	{"a word of C++ that Metal lacks", regexp.MustCompile(`\b(new|delete|try|catch|throw|virtual|dynamic_cast|typeid|thread_local|static_assert|asm)\b`)},
	{"a template", regexp.MustCompile(`\btemplate\b`)},
	{"a namespace", regexp.MustCompile(`\bstd::`)},
	{"double precision", regexp.MustCompile(`\bdouble\b`)},
	{"an integer whose size depends on the platform", regexp.MustCompile(`\b(long|short|unsigned|size_t|char)\b`)},
	{"a literal of double precision", regexp.MustCompile(`(^|[^\w.])(\d+\.\d*|\.\d+|\d+\.?\d*[eE][-+]?\d+)([eE][-+]?\d+)?([^\w.]|$)`)},
	{"an included file", regexp.MustCompile(`#\s*include`)},
	{"a variable of the program that is not constant", regexp.MustCompile(`(?m)^(static|const|float|uint|int|uchar|ushort|device|threadgroup)\b`)},
}

// pointer matches pointers and references with the words before the type.
var pointer = regexp.MustCompile(`((?:\b\w+\s+)*)\b(float|uint|int|ushort|uchar|bool|wide|void)\s*[*&]`)

// spaces are the address spaces, one of which every pointer must name.
var spaces = []string{"device", "threadgroup", "constant", "thread"}

var (
	comments  = regexp.MustCompile(`//[^\n]*`)
	functions = regexp.MustCompile(`(?m)^FUNC\s+(?:\w+\s+)*?[\w *]*?(\w+)\(([^{]*)\)\s*\{`)
)

// lint returns what Metal would reject in the text of a kernel's file.
func lint(text string) (faults []string) {
	text = comments.ReplaceAllString(text, "")
	add := func(at int, format string, args ...any) {
		line := 1 + strings.Count(text[:at], "\n")
		faults = append(faults, fmt.Sprintf("line %d: %s", line, fmt.Sprintf(format, args...)))
	}
	for _, f := range forbidden {
		for _, m := range f.re.FindAllStringIndex(text, -1) {
			add(m[0], "%s: %s", f.what, strings.TrimSpace(text[m[0]:m[1]]))
		}
	}
	for _, m := range pointer.FindAllStringSubmatchIndex(text, -1) {
		if !slices.ContainsFunc(strings.Fields(text[m[2]:m[3]]), func(w string) bool { return slices.Contains(spaces, w) }) {
			add(m[0], "a pointer without an address space: %s", strings.TrimSpace(text[m[0]:m[1]]))
		}
	}
	calls := map[string][]string{}
	heads := functions.FindAllStringSubmatchIndex(text, -1)
	for _, h := range heads {
		name := text[h[2]:h[3]]
		if strings.Contains(text[h[4]:h[5]], "[") {
			add(h[0], "an array as an argument of %s", name)
		}
		body := block(text[h[1]:])
		for _, other := range heads {
			callee := text[other[2]:other[3]]
			if regexp.MustCompile(`\b` + callee + `\(`).MatchString(body) {
				calls[name] = append(calls[name], callee)
			}
		}
	}
	for _, h := range heads {
		if name := text[h[2]:h[3]]; reaches(calls, name, name, map[string]bool{}) {
			add(h[0], "recursion of %s", name)
		}
	}
	return faults
}

// block returns the text up to the matching closing brace.
func block(text string) string {
	depth := 1
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			return text[:i]
		}
	}
	return text
}

// reaches reports whether a call of from can lead to a call of to.
func reaches(calls map[string][]string, from, to string, seen map[string]bool) bool {
	for _, next := range calls[from] {
		if next == to {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if reaches(calls, next, to, seen) {
				return true
			}
		}
	}
	return false
}

// TestLint checks that the kernels have no findings. The portability header is
// excluded, because it defines the dialect for each platform and is not written in
// it.
func TestLint(t *testing.T) {
	names, err := fs.Glob(sources, "*.h")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d sources, %v", len(names), err)
	}
	for _, name := range names {
		if name == "dialect.h" {
			continue
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range lint(string(text)) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// TestLintFinds checks that the lint finds what it is for.
func TestLintFinds(t *testing.T) {
	for text, want := range map[string]string{
		"FUNC float f(float v) { return [&](float a) { return a; }(v); }\n":                "a lambda",
		"FUNC float f(float v) { goto end; end: return v; }\n":                             "goto",
		"FUNC float f(float v) { return v > 1.0f ? f(v) : v; }\n":                          "recursion of f",
		"FUNC float f(float v) { return g(v); }\nFUNC float g(float v) { return f(v); }\n": "recursion of f",
		"FUNC float f(const float *v) { return v[0]; }\n":                                  "a pointer without an address space",
		"FUNC void f(float &v) { v = 0.0f; }\n":                                            "a pointer without an address space",
		"FUNC float f(float v[8]) { return v[0]; }\n":                                      "an array as an argument",
		"FUNC float f(float v) { return 0.5 * v; }\n":                                      "a literal of double precision",
		"FUNC float f(float v) { return 1e-3 * v; }\n":                                     "a literal of double precision",
		"FUNC float f(double v) { return v; }\n":                                           "double precision",
		"FUNC uint f(unsigned long v) { return v; }\n":                                     "an integer whose size",
		"float table[2] = {1.0f, 2.0f};\n":                                                 "a variable of the program",
		"#include <cmath>\n":                                                               "an included file",
	} {
		if got := strings.Join(lint(text), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q: found %q, want %s", text, got, want)
		}
	}
	if got := lint("FUNC float f(device const float *v, thread float &w) { return v[0] * w * 1.5e-3f; } // goto 0.5\n"); len(got) > 0 {
		t.Errorf("found %q in a sound function", got)
	}
}

// TestPlatforms lists the platform-specific branches in the sources, which the
// emulator does not compile: those in the portability header, and those in an inner
// product of the prefill.
func TestPlatforms(t *testing.T) {
	names, err := fs.Glob(sources, "*.h")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`\b[A-Za-z_]\w*\b`)
	known := map[string]bool{"defined": true, "THREADS": true}
	for _, k := range Kernels {
		for _, c := range k.Constants {
			known[c] = true
		}
	}
	var texts []string
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
		for _, m := range regexp.MustCompile(`(?m)^\s*#define (\w+)`).FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = known[m[1]] || name != "dialect.h"
		}
	}
	var got []string
	for i, name := range names {
		for line := range strings.Lines(texts[i]) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
			directive, condition, _ := strings.Cut(line, " ")
			if !slices.Contains([]string{"#if", "#ifdef", "#ifndef", "#elif"}, directive) {
				continue
			}
			if slices.ContainsFunc(word.FindAllString(condition, -1), func(w string) bool { return !known[w] }) {
				got = append(got, name+": "+strings.TrimSpace(condition))
			}
		}
	}
	want := []string{
		"dialect.h: defined(__METAL_VERSION__)", "dialect.h: defined(GODWIT_EMULATOR)", "dialect.h: defined(__HIP__)",
		"matrix8.h: MMA == 2 && defined(__METAL_VERSION__)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("branches by platform:\n got %q\nwant %q", got, want)
	}
}
