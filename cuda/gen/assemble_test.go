//go:build linux

package main

import (
	"archive/zip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakePtxas reports what the image contains: its second line is the number of
// spilled bytes, and its third line is the number of registers.
const fakePtxas = `#!/bin/sh
if [ "$1" = --version ]; then
	echo "Cuda compilation tools, release 12.9, V12.9.86"
	exit
fi
for file; do :; done
[ "$(sed -n 4p "$file")" = broken ] && echo "syntax error" && exit 1
echo "    0 bytes stack frame, $(sed -n 2p "$file") bytes spill stores, 0 bytes spill loads"
echo "ptxas info    : Used $(sed -n 3p "$file") registers, used 1 barriers"
echo "$2" >>"$0.log"
`

// folder holds a pack, a fake ptxas and a record.
type folder struct{ pack, ptxas, record string }

// put writes a pack of images: {hash, text} by name.
func put(t *testing.T, images map[string][2]string) folder {
	t.Helper()
	dir := t.TempDir()
	f := folder{filepath.Join(dir, "pack.zip"), filepath.Join(dir, "ptxas"), filepath.Join(dir, "record")}
	if err := os.WriteFile(f.ptxas, []byte(fakePtxas), 0o700); err != nil {
		t.Fatal(err)
	}
	f.fill(t, images)
	return f
}

func (f folder) fill(t *testing.T, images map[string][2]string) {
	t.Helper()
	file, err := os.Create(f.pack)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(file)
	for name, image := range images {
		e, err := w.CreateHeader(&zip.FileHeader{Name: name, Comment: image[0]})
		if err == nil {
			_, err = e.Write([]byte(image[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func (f folder) open(t *testing.T) *assembler {
	t.Helper()
	a, err := newAssembler(f.ptxas, f.pack, f.record)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// runs returns how often ptxas has run.
func (f folder) runs(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile(f.ptxas + ".log")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

func TestRecord(t *testing.T) {
	images := map[string][2]string{
		"attend A=1":   {"aa", ".target sm_75\n0\n100\n"},
		"attend A=2":   {"ab", ".target sm_75\n0\n120\n"},
		"matmul MMA=1": {"ac", ".target sm_80\n0\n64\n"},
	}
	f := put(t, images)
	if err := f.open(t).renew(f.record); err != nil {
		t.Fatal(err)
	}
	if n := f.runs(t); n != 7+7+6 {
		t.Errorf("%d runs for three images", n)
	}
	first, err := os.ReadFile(f.record)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"aa 100 100 100 100 100 100 100 attend A=1\n", "ac 0 64 64 64 64 64 64 matmul MMA=1\n"} {
		if !strings.Contains(string(first), line) {
			t.Errorf("no %q in\n%s", line, first)
		}
	}
	a := f.open(t)
	if err := a.renew(f.record); err != nil || f.runs(t) != 20 {
		t.Errorf("%d runs, the last for nothing: %v", f.runs(t)-20, err)
	}
	if again, err := os.ReadFile(f.record); err != nil || string(again) != string(first) {
		t.Errorf("the record changed, %v:\n%s", err, again)
	}
	if err := a.check([]string{"75", "90"}); err != nil || f.runs(t) != 20+3 { // one attend for both, matmul for one
		t.Errorf("%d runs of a check: %v", f.runs(t)-20, err)
	}
	images["matmul MMA=1"] = [2]string{"ad", ".target sm_80\n8\n64\n"}
	f.fill(t, images)
	for range 2 { // first from ptxas, then from the record
		if err := f.open(t).renew(f.record); err == nil || !strings.Contains(err.Error(), "matmul MMA=1 spills 8 bytes on sm_120") {
			t.Errorf("an image that spills: %v", err)
		}
	}
	spilled, err := os.ReadFile(f.record)
	if line := "ad 0 64+8 64+8 64+8 64+8 64+8 64+8 matmul MMA=1\n"; err != nil || !strings.Contains(string(spilled), line) {
		t.Errorf("no %q in\n%s: %v", line, spilled, err)
	}
}

// A check finds images that have changed, that spill, that differ from the
// record, or that do not assemble.
func TestCheck(t *testing.T) {
	good := map[string][2]string{
		"attend A=1": {"aa", ".target sm_75\n0\n100\n"},
		"matmul A=1": {"ab", ".target sm_75\n0\n60\n"},
	}
	f := put(t, good)
	if err := f.open(t).renew(f.record); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		image [2]string
		want  string // expected error; empty if the check succeeds
	}{
		{"attend A=1", [2]string{"ba", ".target sm_75\n0\n90\n"}, ""},
		{"attend A=1", [2]string{"bb", ".target sm_75\n4\n90\n"}, "attend A=1 spills 4 bytes on sm_86"},
		{"matmul A=1", [2]string{"bc", ".target sm_75\n4\n90\n"}, "matmul A=1 spills 4 bytes on sm_86"},
		{"attend A=1", [2]string{"aa", ".target sm_75\n0\n90\n"}, "attend A=1 takes 90 on sm_86, the record says 100"},
		{"matmul A=1", [2]string{"bd", ".target sm_75\n0\n90\nbroken\n"}, "syntax error"},
		{"matmul A=1", [2]string{"be", "nothing"}, "without a target"},
	} {
		images := maps.Clone(good)
		images[c.name] = c.image
		f.fill(t, images)
		err := f.open(t).check([]string{"86"})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.image, err, c.want)
		}
	}
	many := map[string][2]string{"matmul A=1": {"ca", ".target sm_75\n0\n90\n"}}
	for i := range 3 * mostChanged {
		many[fmt.Sprintf("attend A=%d", i)] = [2]string{fmt.Sprintf("c%d", i), ".target sm_75\n0\n90\n"}
	}
	f.fill(t, many)
	if keys, changed := f.open(t).choose(); len(keys) > mostChanged+2 || changed != len(many) || !strings.HasPrefix(keys[len(keys)-1], "matmul") {
		t.Errorf("%d images of %d that changed, the last %q", len(keys), changed, keys[len(keys)-1])
	}
	f.fill(t, good)
	if err := f.open(t).check([]string{"42"}); err == nil || !strings.Contains(err.Error(), "sm_42") {
		t.Errorf("an architecture that is not served: %v", err)
	}
}
