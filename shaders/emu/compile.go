//go:build linux || darwin

package emu

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/cpu"
)

//go:embed emu.h
var runtimeText []byte

// flags make arithmetic follow the sources exactly, without contraction or
// reordering.
var flags = []string{
	"-std=c++14", "-O2", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off",
	"-fno-strict-aliasing", "-fvisibility=hidden", "-w", "-DGODWIT_EMULATOR",
}

// machineFlags allow the compiler to use this machine's fused multiply-add for
// the calls of fma in the sources.
func machineFlags() []string {
	if cpu.X86.HasFMA && cpu.X86.HasAVX2 {
		return []string{"-mavx2", "-mfma"}
	}
	return nil
}

// compiler compiles kernel sources into libraries and loads them.
type compiler struct {
	path, version string
	flags         []string
	dir           string
}

// loaded holds the libraries of this process by file. They are never closed.
var loaded struct {
	sync.Mutex
	libs map[string]*library
}

type library struct {
	once   sync.Once
	handle uintptr
	err    error
}

// newCompiler finds the C++ compiler: name, $CXX or c++.
func newCompiler(name, dir string) (*compiler, error) {
	if name == "" {
		name = os.Getenv("CXX")
	}
	if name == "" {
		name = "c++"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("emu: the emulator compiles its kernels when they are first used and finds no C++ compiler: "+
			"install g++ or clang++, or set CXX: %w", err)
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("emu: %s --version: %w", path, err)
	}
	version, _, _ := strings.Cut(string(out), "\n")
	return &compiler{path, strings.TrimSpace(version), append(machineFlags(), flags...), dir}, nil
}

// load returns the library of a kernel's text. It compiles the text unless this
// or another process has already compiled it.
func (c *compiler) load(kernel, text string) (uintptr, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%s\x00%s", runtime.GOARCH, c.path, c.version, c.flags, runtimeText, text)
	file := filepath.Join(c.dir, kernel+"-"+hex.EncodeToString(h.Sum(nil)[:12])+".so")
	loaded.Lock()
	if loaded.libs == nil {
		loaded.libs = map[string]*library{}
	}
	l := loaded.libs[file]
	if l == nil {
		l = &library{}
		loaded.libs[file] = l
	}
	loaded.Unlock()
	l.once.Do(func() { l.handle, l.err = c.open(file, kernel, text) })
	return l.handle, l.err
}

func (c *compiler) open(file, kernel, text string) (uintptr, error) {
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = c.build(file, kernel, text)
	}
	if err != nil {
		return 0, fmt.Errorf("emu: %s: %w", kernel, err)
	}
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("emu: %s: %w", kernel, err)
	}
	return handle, nil
}

// build compiles in a temporary folder and moves the result, so that processes that
// build the same kernel do not interfere.
func (c *compiler) build(file, kernel, text string) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.dir, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	text += "\nGODWIT_ENTRY(" + kernel + ")\n"
	for name, data := range map[string][]byte{"emu.h": runtimeText, "kernel.cc": []byte(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	args := append(slices.Clone(c.flags), "-include", "emu.h", "kernel.cc", "-o", "kernel.so", "-lm")
	cmd := exec.Command(c.path, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c.path, err, head(stderr.String(), 12))
	}
	return os.Rename(filepath.Join(dir, "kernel.so"), file)
}

// head returns the first n lines of a text.
func head(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
