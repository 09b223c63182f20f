package neon

import (
	"bufio"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var wordLine = regexp.MustCompile(`(?m)^\tWORD \$0x([0-9a-f]{8}) // (.*)$`)

// everything writes each instruction that is emitted as a WORD, with different registers, elements
// and numbers of bits.
func everything() *File {
	f := &File{Package: "p"}
	for name := range three {
		f.V(name, 31, 17, 6)
		f.V(name, 0, 5, 28)
	}
	for name := range byElement {
		for i := range 4 {
			f.ByElement(name, 30, 9, V(31-8*i), i)
		}
	}
	for name := range two {
		f.N(name, 31, 17)
		f.N(name, 0, 5)
	}
	for name := range shifts {
		for _, by := range []int{1, 4, 7} {
			f.Shift(name, 31, 6, by)
		}
	}
	for i := range 3 {
		f.Zero(V(15 * i))
		f.Fill(V(15*i), 0x0f0f0f0f<<i, R0)
		f.Fill(V(15*i), 15<<i, R0)
		f.Repeat(V(15*i), R(12*i))
		f.Look(V(15*i), 9, 1+i, V(31-i))
		f.Look(V(15*i), 20, 4, V(31-i))
		f.LookOn(V(15*i), 20, 4, V(31-i))
	}
	return f
}

// The words equal those of another assembler; see testdata/README.md.
func TestEncodings(t *testing.T) {
	want := map[string]uint64{}
	file, err := os.Open("testdata/encodings.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		word, text, _ := strings.Cut(lines.Text(), " ")
		if want[text], err = strconv.ParseUint(word, 16, 32); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	found := wordLine.FindAllStringSubmatch(everything().text.String(), -1)
	if len(found) < len(want) {
		t.Errorf("%d instructions written, %d known", len(found), len(want))
	}
	for _, m := range found {
		got, err := strconv.ParseUint(m[1], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[m[2]]; !ok || got != w {
			t.Errorf("%s is %08x, want %08x", m[2], got, w)
		}
	}
}

func TestLayout(t *testing.T) {
	f := &File{}
	size := f.layout("(dst, x []float32, n int, s float32, b uint32) float32")
	for name, off := range map[string]int{"dst_base": 0, "dst_len": 8, "x_base": 24, "n": 48, "s": 56, "b": 60, "ret": 64} {
		base, _, _ := strings.Cut(name, "_")
		if got := f.arg(name); got != name+"+"+strconv.Itoa(off)+"(FP)" {
			t.Errorf("%s of %s: %s, want offset %d", name, base, got, off)
		}
	}
	if size != 68 {
		t.Errorf("arguments take %d bytes, want 68", size)
	}
}
