package shaders

import "testing"

// Comments and empty lines leave the hash of a kernel alone, so that rewording one
// does not make the compiled kernels stale. Everything else changes it.
func TestBare(t *testing.T) {
	const want = "#define A 1\n\ta = b / c;\n"
	for _, text := range []string{
		"#define A 1\n\ta = b / c;\n",
		"// a comment\n\n#define A 1 // another\n\ta = b / c; \n\n",
	} {
		if got := bare(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if bare("a = b;") == bare("a = c;") || bare("a = 1;\n#define A") == bare("a = 1; #define A") {
		t.Error("other code has the same bare text")
	}
}
