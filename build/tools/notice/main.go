// Notice writes NOTICE. NOTICE lists the licences of the Go modules in a
// shipped binary and of the npm packages in the page, with the licence texts.
// It also names the modules that only tests use.
//
// With -check, the command compares NOTICE instead of writing it. The npm texts
// come from frontend/node_modules. If that folder is missing, a check compares
// only names, versions and licence names.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	check := flag.Bool("check", false, "compare with NOTICE, write nothing")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	shipped, tested, err := goModules(root)
	if err != nil {
		return err
	}
	packages, complete, err := npmPackages(filepath.Join(root, "frontend"))
	if err != nil {
		return err
	}
	path := filepath.Join(root, "NOTICE")
	var out bytes.Buffer
	writeNotice(&out, shipped, tested, packages)
	if !check {
		if !complete {
			return errors.New("frontend/node_modules is missing or stale; run: npm ci --prefix frontend")
		}
		return os.WriteFile(path, out.Bytes(), 0o644)
	}
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	want := out.Bytes()
	if !complete {
		have, want = withoutNPMTexts(have), withoutNPMTexts(want)
	}
	if line, differ := firstDifference(have, want); differ {
		return fmt.Errorf("NOTICE does not match the modules from line %d on; run: make notice", line)
	}
	return nil
}

// firstDifference returns the number of the first line in which a and b differ,
// counted from 1.
func firstDifference(a, b []byte) (line int, differ bool) {
	if bytes.Equal(a, b) {
		return 0, false
	}
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			return i + 1, true
		}
	}
	return min(len(x), len(y)) + 1, true
}
