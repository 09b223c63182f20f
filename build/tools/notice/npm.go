package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// permitted lists the licences that npm packages of the page may have. These
// licences only require that their text is kept.
var permitted = []string{"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "0BSD", "(MPL-2.0 OR Apache-2.0)"}

// compiled lists the build-time packages that add code of their own to the
// page.
var compiled = []string{"@inlang/paraglide-js"}

// npmPackages returns the packages that package-lock.json installs for the page
// itself. Packages for its build and tests are marked dev and left out.
// complete is false if a package's folder is missing, so that its licence texts
// could not be read.
func npmPackages(frontend string) (packages []work, complete bool, err error) {
	data, err := os.ReadFile(filepath.Join(frontend, "package-lock.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	} else if err != nil {
		return nil, false, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev, Optional    bool
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, false, fmt.Errorf("package-lock.json: %w", err)
	}
	complete = true
	for path, p := range lock.Packages {
		_, name, ok := strings.Cut(path, "node_modules/")
		if !ok || p.Dev && !slices.Contains(compiled, name) || p.Optional {
			continue
		}
		if !slices.Contains(permitted, p.License) {
			return nil, false, fmt.Errorf("npm package %s %s has licence %q; permitted: %s", name, p.Version, p.License, strings.Join(permitted, ", "))
		}
		w := work{name: name, version: p.Version, licence: p.License}
		if read, err := readWork(name, p.Version, filepath.Join(frontend, path)); err == nil {
			w.texts = read.texts
		} else if _, missing := os.Stat(filepath.Join(frontend, path)); missing != nil {
			complete = false
		}
		packages = append(packages, w)
	}
	slices.SortFunc(packages, func(a, b work) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version)) })
	return packages, complete, nil
}
