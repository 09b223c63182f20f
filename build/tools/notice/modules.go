package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// work is a third-party module or package.
type work struct {
	name, version string
	licence       string // SPDX name
	texts         []string
}

// platforms lists the shipped builds. Each links a different set of modules.
var platforms = []struct {
	goos, goarch, cgo, tags string
}{
	{"linux", "amd64", "1", "desktop,production,webkit2_41"},
	{"linux", "arm64", "0", ""},
	{"darwin", "arm64", "1", "desktop,production"},
	{"windows", "amd64", "0", "desktop,production"},
}

// goModules returns the modules that any shipped build of the module at root
// links, and the modules that only tests import.
func goModules(root string) (shipped, tested []work, err error) {
	linked := map[string]string{} // module@version to its folder
	for _, p := range platforms {
		env := append(os.Environ(), "GOOS="+p.goos, "GOARCH="+p.goarch, "CGO_ENABLED="+p.cgo)
		if err := listModules(linked, root, env, "-tags", p.tags); err != nil {
			return nil, nil, err
		}
	}
	all := map[string]string{}
	if err := listModules(all, root, os.Environ(), "-test"); err != nil {
		return nil, nil, err
	}
	for id, dir := range all {
		if _, ok := linked[id]; ok {
			continue
		}
		w, err := readModule(id, dir)
		if err != nil {
			return nil, nil, err
		}
		tested = append(tested, w)
	}
	for id, dir := range linked {
		w, err := readModule(id, dir)
		if err != nil {
			return nil, nil, err
		}
		shipped = append(shipped, w)
	}
	std, err := readStandardLibrary(root)
	if err != nil {
		return nil, nil, err
	}
	shipped = append(shipped, std)
	byName := func(a, b work) int { return cmp.Compare(a.name, b.name) }
	slices.SortFunc(shipped, byName)
	slices.SortFunc(tested, byName)
	return shipped, tested, nil
}

// listModules adds the modules of the packages that `go list -deps FLAGS ./...`
// prints, except the main module.
func listModules(into map[string]string, root string, env []string, flags ...string) error {
	args := append([]string{"list", "-e", "-deps", "-json=Module"}, flags...)
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir, cmd.Env, cmd.Stderr = root, env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list %s: %w", strings.Join(flags, " "), err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if m := pkg.Module; m != nil && !m.Main {
			into[m.Path+"@"+m.Version] = m.Dir
		}
	}
}

func readModule(id, dir string) (work, error) {
	name, version, _ := strings.Cut(id, "@")
	if dir == "" {
		return work{}, fmt.Errorf("%s is not downloaded; run: go mod download", id)
	}
	return readWork(name, version, dir)
}

// readStandardLibrary reads the licence of Go itself, because its library and
// runtime are part of every binary.
func readStandardLibrary(root string) (work, error) {
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return work{}, err
	}
	return readWork("Go standard library", "", strings.TrimSpace(string(out)))
}

// readWork reads the licence files at the top of a folder.
func readWork(name, version, dir string) (work, error) {
	w := work{name: name, version: version}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return w, err
	}
	var licences []string
	for _, e := range entries {
		base := strings.ToUpper(e.Name())
		ext := filepath.Ext(base)
		if e.IsDir() || ext != "" && ext != ".TXT" && ext != ".MD" && !strings.HasPrefix(ext, ".MIT") {
			continue
		}
		if !strings.HasPrefix(base, "LICEN") && !strings.HasPrefix(base, "COPYING") && !strings.HasPrefix(base, "NOTICE") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return w, err
		}
		text := strings.ReplaceAll(string(data), "\r\n", "\n")
		w.texts = append(w.texts, text)
		if id := identify(text); id != "" && !slices.Contains(licences, id) {
			licences = append(licences, id)
		}
	}
	if len(licences) == 0 {
		return w, fmt.Errorf("%s %s: no permitted licence found in %s", name, version, dir)
	}
	w.licence = strings.Join(licences, " and ")
	return w, nil
}

// identify names the licence of a text by a sentence that only this licence
// contains. The list has only licences that require nothing except keeping
// their text, so a module with any other licence stops the build.
func identify(text string) string {
	flat := strings.Join(strings.Fields(text), " ")
	has := func(s string) bool { return strings.Contains(flat, s) }
	switch {
	case has("GNU GENERAL PUBLIC LICENSE"), has("GNU LESSER GENERAL PUBLIC LICENSE"), has("GNU AFFERO"):
		return ""
	case has("Apache License") && has("Version 2.0"):
		return "Apache-2.0"
	case has("Mozilla Public License Version 2.0"), has("Mozilla Public License, version 2.0"):
		return "MPL-2.0"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Permission to use, copy, modify, and/or distribute"), has("Permission to use, copy, modify, and distribute"):
		return "ISC"
	case has("Redistribution and use in source and binary forms"):
		if has("Neither the name") || has("The names of its contributors") || has("nor the names of") {
			return "BSD-3-Clause"
		}
		return "BSD-2-Clause"
	case has("free and unencumbered software released into the public domain"):
		return "Unlicense"
	}
	return ""
}
