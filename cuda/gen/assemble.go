//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// use is what kernels of one name take at most on one architecture.
type use struct{ registers, stack, spills, shared, kernels, spilling int }

var ptxasSays = []struct {
	line *regexp.Regexp
	to   func(*use) *int
}{
	{regexp.MustCompile(`Used (\d+) registers`), func(u *use) *int { return &u.registers }},
	{regexp.MustCompile(`(\d+) bytes stack frame`), func(u *use) *int { return &u.stack }},
	{regexp.MustCompile(`(\d+) bytes spill stores`), func(u *use) *int { return &u.spills }},
	{regexp.MustCompile(`(\d+) bytes smem`), func(u *use) *int { return &u.shared }},
}

// assemble runs ptxas over every image for each architecture and prints a table
// of what the kernels take. An image that does not assemble is an error.
func assemble(ptxas, pack string, archs []string) error {
	images, err := read(pack)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "godwit-ptx-")
	if err != nil {
		return err
	}
	type job struct{ name, file, arch string }
	jobs := make(chan job)
	var mu sync.Mutex
	var errs []error
	total := map[string]*use{}
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for j := range jobs {
				out, err := exec.Command(ptxas, "-v", "-arch=sm_"+j.arch, "-o", os.DevNull, j.file).CombinedOutput()
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("%s, sm_%s: %w: %s", j.name, j.arch, err, out))
				}
				kernel, _, _ := strings.Cut(j.name, " ")
				key := fmt.Sprintf("%s sm_%s", kernel, j.arch)
				if total[key] == nil {
					total[key] = &use{}
				}
				total[key].add(string(out))
				mu.Unlock()
			}
		})
	}
	for i, key := range slices.Sorted(maps.Keys(images)) {
		name, _, _ := strings.Cut(key, "\x00")
		file := filepath.Join(dir, strconv.Itoa(i)+".ptx")
		if err := os.WriteFile(file, images[key], 0o600); err != nil {
			errs = append(errs, err)
			break
		}
		for _, arch := range archs {
			jobs <- job{name, file, arch}
		}
	}
	close(jobs)
	wg.Wait()
	fmt.Printf("%-24s %8s %9s %9s %12s %9s\n", "kernel", "images", "registers", "spilling", "spill bytes", "shared")
	for _, key := range slices.Sorted(maps.Keys(total)) {
		u := total[key]
		fmt.Printf("%-24s %8d %9d %9d %12d %9d\n", key, u.kernels, u.registers, u.spilling, u.spills, u.shared)
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// add takes in what ptxas says of one image.
func (u *use) add(said string) {
	u.kernels++
	for _, s := range ptxasSays {
		if m := s.line.FindStringSubmatch(said); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				continue
			}
			if at := s.to(u); n > *at {
				*at = n
			}
			if s.line == ptxasSays[2].line && n > 0 {
				u.spilling++
			}
		}
	}
}
