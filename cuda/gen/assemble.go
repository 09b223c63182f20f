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

// served lists the architectures for which the PTX is assembled.
var served = []string{"75", "80", "86", "89", "90", "100", "120"}

// use is what an image needs on one architecture. registers is 0 if the image
// is not for that architecture.
type use struct {
	registers, spilled int // spilled is in bytes
}

func (u use) String() string {
	if u.spilled == 0 {
		return strconv.Itoa(u.registers)
	}
	return fmt.Sprintf("%d+%d", u.registers, u.spilled)
}

// target is the architecture for which an image is made. The image runs on this
// architecture and on later ones.
var target = regexp.MustCompile(`(?m)^\.target sm_(\d+)$`)

// archsOf returns the given architectures on which an image runs.
func archsOf(image []byte, archs []string) (list []string, err error) {
	m := target.FindSubmatch(image)
	if m == nil {
		return nil, errors.New("PTX without a target")
	}
	first, err := strconv.Atoi(string(m[1]))
	for _, arch := range archs {
		n, e := strconv.Atoi(arch)
		if err = errors.Join(err, e); err == nil && n >= first {
			list = append(list, arch)
		}
	}
	return list, err
}

var ptxasSays = regexp.MustCompile(`(?s)(\d+) bytes spill stores.*Used (\d+) registers`)

// record holds the results of ptxas by image name: the image's hash and its use on
// every served architecture.
type record struct {
	ptxas  string // version
	images map[string]noted
}

type noted struct {
	hash string
	uses []use // one use per architecture, in the order of served
}

const recordHead = "# What ptxas %s says of each image: hash, registers (+ bytes spilled) for sm_%s, name.\n"

// readRecord reads a record. It ignores a record of another ptxas version.
func readRecord(path, version string) (*record, error) {
	r := &record{version, map[string]noted{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(recordHead, version, strings.Join(served, " "))
	rest, ok := strings.CutPrefix(string(data), head)
	if !ok {
		return r, nil
	}
	for line := range strings.Lines(rest) {
		word := strings.SplitN(strings.TrimSpace(line), " ", len(served)+2)
		if len(word) < len(served)+2 {
			return nil, fmt.Errorf("%s: %q", path, line)
		}
		n := noted{hash: word[0]}
		for _, w := range word[1 : len(served)+1] {
			var u use
			registers, spilled, _ := strings.Cut(w+"+0", "+")
			spilled, _, _ = strings.Cut(spilled, "+")
			if u.registers, err = strconv.Atoi(registers); err == nil {
				u.spilled, err = strconv.Atoi(spilled)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, line, err)
			}
			n.uses = append(n.uses, u)
		}
		r.images[word[len(served)+1]] = n
	}
	return r, nil
}

// write replaces the record's file.
func (r *record) write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, recordHead, r.ptxas, strings.Join(served, " "))
	for _, name := range slices.Sorted(maps.Keys(r.images)) {
		n := r.images[name]
		b.WriteString(n.hash)
		for _, u := range n.uses {
			fmt.Fprintf(&b, " %v", u)
		}
		fmt.Fprintf(&b, " %s\n", name)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// job is an image to assemble for an architecture.
type job struct {
	name, hash, file, arch string
	use                    use
	err                    error
}

// assembler runs ptxas over the images of a pack.
type assembler struct {
	ptxas  string
	images map[string][]byte
	record *record
}

func newAssembler(ptxas, pack, path string) (*assembler, error) {
	said, err := exec.Command(ptxas, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ptxas, err)
	}
	version := regexp.MustCompile(`V(\d[\d.]+)`).FindSubmatch(said)
	if version == nil {
		return nil, fmt.Errorf("%s printed no version: %s", ptxas, said)
	}
	a := &assembler{ptxas: ptxas}
	if a.images, err = read(pack); err == nil {
		a.record, err = readRecord(path, string(version[1]))
	}
	return a, err
}

// renew assembles the images that are missing from the record, for all
// architectures. It adds them to the record and prints a summary. It writes the
// record from time to time, so that an interrupted run loses little.
func (a *assembler) renew(path string) error {
	var todo []string
	fresh := map[string]noted{}
	for _, key := range slices.Sorted(maps.Keys(a.images)) {
		name, hash, _ := strings.Cut(key, "\x00")
		if n := a.record.images[name]; n.hash == hash {
			fresh[name] = n
		} else {
			todo = append(todo, key)
		}
	}
	a.record.images = fresh
	for part := range slices.Chunk(todo, 32) {
		if err := errors.Join(a.note(part), a.record.write(path)); err != nil {
			return err
		}
	}
	fmt.Printf("ptxas %s: %d images for %d architectures, %d of them assembled now\n", a.record.ptxas, len(fresh), len(served), len(todo))
	return a.sum()
}

// note assembles some images and adds the results to the record.
func (a *assembler) note(keys []string) error {
	var jobs []*job
	for _, key := range keys {
		name, hash, _ := strings.Cut(key, "\x00")
		archs, err := archsOf(a.images[key], served)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, arch := range archs {
			jobs = append(jobs, &job{name: name, hash: hash, arch: arch})
		}
	}
	if err := a.run(jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		n := a.record.images[j.name]
		if n.uses == nil {
			n = noted{j.hash, make([]use, len(served))}
		}
		n.uses[slices.Index(served, j.arch)] = j.use
		a.record.images[j.name] = n
	}
	return nil
}

// mostChanged limits how many changed images a check assembles.
const mostChanged = 128

// choose returns the images that a check assembles. These are the images that
// are missing from the record, or every nth of them if there are many, and at
// least one image per kernel. It also returns how many are missing.
func (a *assembler) choose() (keys []string, changed int) {
	var fresh []string
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(a.images)) {
		name, hash, _ := strings.Cut(key, "\x00")
		kernel := kernelOf(name)
		if a.record.images[name].hash != hash {
			fresh = append(fresh, key)
		} else if !seen[kernel] {
			seen[kernel] = true
			keys = append(keys, key)
		}
	}
	step := (len(fresh) + mostChanged - 1) / mostChanged
	for i := range fresh {
		name, _, _ := strings.Cut(fresh[i], "\x00")
		if kernel := kernelOf(name); i%step == 0 || !seen[kernel] {
			seen[kernel] = true
			keys = append(keys, fresh[i])
		}
	}
	return keys, len(fresh)
}

// check assembles images that are missing from the record, and some images in
// it, for some architectures. For an image in the record, ptxas must report the
// recorded values.
func (a *assembler) check(archs []string) error {
	for _, arch := range archs {
		if !slices.Contains(served, arch) {
			return fmt.Errorf("sm_%s is not supported; supported are %v", arch, served)
		}
	}
	var jobs []*job
	keys, changed := a.choose()
	for _, key := range keys {
		name, hash, _ := strings.Cut(key, "\x00")
		list, err := archsOf(a.images[key], archs)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, arch := range list {
			jobs = append(jobs, &job{name: name, hash: hash, arch: arch})
		}
	}
	err := a.run(jobs)
	for _, j := range jobs {
		n := a.record.images[j.name]
		switch {
		case j.err != nil:
		case n.hash == j.hash && n.uses[slices.Index(served, j.arch)] != j.use:
			err = errors.Join(err, fmt.Errorf("%s takes %v on sm_%s, the record says %v", j.name, j.use, j.arch, n.uses[slices.Index(served, j.arch)]))
		case j.use.spilled > 0:
			err = errors.Join(err, fmt.Errorf("%s spills %d bytes on sm_%s", j.name, j.use.spilled, j.arch))
		}
	}
	if err == nil {
		fmt.Printf("ptxas %s: %d of %d images for sm_%s; %d are not in the record, which make gpu-check renews\n",
			a.record.ptxas, len(keys), len(a.images), strings.Join(archs, " "), changed)
	}
	return errors.Join(err, a.spills())
}

// kernelOf returns the kernel of an image.
func kernelOf(name string) string {
	kernel, _, _ := strings.Cut(name, " ")
	return kernel
}

// spills returns an error about images that spill registers according to the
// record.
func (a *assembler) spills() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a.record.images)) {
		n := a.record.images[name]
		for i, u := range n.uses {
			if u.spilled > 0 && a.images[name+"\x00"+n.hash] != nil {
				errs = append(errs, fmt.Errorf("%s spills %d bytes on sm_%s", name, u.spilled, served[i]))
			}
		}
	}
	return errors.Join(errs...)
}

// sum prints a row for each kernel, with the largest use among its images.
func (a *assembler) sum() error {
	fmt.Printf("%-16s %6s %10s %9s %12s\n", "kernel", "images", "registers", "spilling", "spill bytes")
	images, spilling, most := map[string]int{}, map[string]int{}, map[string]use{}
	for name, n := range a.record.images {
		k := kernelOf(name)
		images[k]++
		for _, u := range n.uses {
			most[k] = use{max(most[k].registers, u.registers), max(most[k].spilled, u.spilled)}
			spilling[k] += min(u.spilled, 1)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(images)) {
		fmt.Printf("%-16s %6d %10d %9d %12d\n", k, images[k], most[k].registers, spilling[k], most[k].spilled)
	}
	return a.spills()
}

// run runs the jobs. An image that does not assemble is an error.
func (a *assembler) run(jobs []*job) error {
	dir, err := os.MkdirTemp("", "godwit-ptx-")
	if err != nil {
		return err
	}
	files := map[string]string{}
	for _, j := range jobs {
		if files[j.name] == "" {
			files[j.name] = filepath.Join(dir, strconv.Itoa(len(files))+".ptx")
			err = errors.Join(err, os.WriteFile(files[j.name], a.images[j.name+"\x00"+j.hash], 0o600))
		}
		j.file = files[j.name]
	}
	queue := make(chan *job)
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for j := range queue {
				j.run(a.ptxas)
			}
		})
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	wg.Wait()
	for _, j := range jobs {
		err = errors.Join(err, j.err)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func (j *job) run(ptxas string) {
	out, err := exec.Command(ptxas, "-v", "-arch=sm_"+j.arch, "-o", os.DevNull, j.file).CombinedOutput()
	said := ptxasSays.FindSubmatch(out)
	if err == nil && said == nil {
		err = errors.New("ptxas did not report the resources that it uses")
	}
	if err == nil {
		j.use.spilled, err = strconv.Atoi(string(said[1]))
	}
	if err == nil {
		j.use.registers, err = strconv.Atoi(string(said[2]))
	}
	if err != nil {
		j.err = fmt.Errorf("%s, sm_%s: %w: %s", j.name, j.arch, err, out)
	}
}
