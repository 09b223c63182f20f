//go:build unix

// Package tests runs the scripts of build/ci with stand-ins for the programs that
// they call.
package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository, relative to this folder.
const root = "../../.."

// machine is a folder of stand-ins, each of which logs its calls.
type machine struct {
	dir, log string
	env      []string
}

// newMachine has a package database without any package, and an installer that
// installs nothing. Go, Node.js and Python have the given versions. A program
// with the version "" is missing.
func newMachine(t *testing.T, user, goVersion, node, python string) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{dir: dir, log: filepath.Join(dir, "log"), env: []string{"PATH=" + dir, "HOME=" + dir}}
	m.add(t, "dpkg-query", "exit 1")
	m.add(t, "apt-get", "exit 0")
	m.add(t, "id", "echo "+user)
	if goVersion != "" {
		m.add(t, "go", `[ "$*" = "env GOVERSION" ] || exit 1; echo go`+goVersion)
	}
	if node != "" {
		m.add(t, "node", "echo v"+node)
		m.add(t, "npm", "exit 1")
	}
	if python != "" {
		m.add(t, "python3", "echo Python "+python)
	}
	// PATH contains nothing else of this machine.
	for _, tool := range []string{"bash", "sh", "env", "make", "dirname", "sed", "grep", "sort", "ls", "uname", "date", "git", "find", "cat"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *machine) add(t *testing.T, name, does string) {
	t.Helper()
	script := "#!/bin/sh\necho " + name + ` "$@" >>"` + m.log + "\"\n" + does + "\n"
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a command in the root of the repository, which must fail. It returns
// the output and the calls of stand-ins.
func (m *machine) run(t *testing.T, name string, args ...string) (out string, calls []string) {
	t.Helper()
	path := filepath.Join(m.dir, name)
	if strings.Contains(name, "/") {
		path = filepath.Join(root, name)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = root
	cmd.Env = m.env
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("%s %v: error %v, want an exit code\n%s", name, args, err, text)
	}
	log, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), strings.Split(strings.TrimSpace(string(log)), "\n")
}

// listed returns the Debian packages of packages.txt.
func listed(t *testing.T) (packages []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "packages.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for i, word := range strings.Fields(line) {
			if i > 1 && !strings.Contains(word, ">=") {
				packages = append(packages, word)
			}
		}
	}
	if len(packages) < 15 {
		t.Fatalf("packages.txt has %d packages", len(packages))
	}
	return packages
}

// starts returns the index of the first call that begins with a prefix.
func starts(calls []string, prefix string) int {
	return slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, prefix) })
}

// builds returns the index of the first call of go that does not ask for its
// version.
func builds(calls []string) int {
	return slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, "go ") && c != "go env GOVERSION" })
}

// A user other than root sees every missing package before any stage begins.
func TestMissingPackagesFirst(t *testing.T) {
	for _, command := range [][]string{{"make", "test"}, {"make", "test-all"}, {".ci/run"}} {
		out, calls := newMachine(t, "1000", "1.26.0", "20.19.0", "3.11.2").run(t, command[0], command[1:]...)
		for _, p := range listed(t) {
			if !strings.Contains(out+" ", " "+p) {
				t.Errorf("%v does not name %s:\n%s", command, p, out)
			}
		}
		if i := builds(calls); i >= 0 || strings.Contains(out, "stage ") || starts(calls, "apt-get") >= 0 {
			t.Errorf("%v continues without the packages: %q\n%s", command, calls, out)
		}
	}
}

// As root, all packages are installed before any stage begins.
func TestPackagesInstalledFirst(t *testing.T) {
	for _, command := range [][]string{{"make", "test"}, {".ci/run"}} {
		out, calls := newMachine(t, "0", "1.26.0", "20.19.0", "3.11.2").run(t, command[0], command[1:]...)
		i := starts(calls, "apt-get -q -o Acquire::Retries=3 install")
		if i < 0 {
			t.Fatalf("%v installs nothing: %q\n%s", command, calls, out)
		}
		got := strings.Fields(calls[i])
		for _, p := range listed(t) {
			if !slices.Contains(got, p) {
				t.Errorf("%v does not install %s: %s", command, p, calls[i])
			}
		}
		if j := builds(calls); j >= 0 && j < i {
			t.Errorf("%v calls Go before the packages are installed: %q", command, calls)
		}
	}
}

// A single stage installs the packages that it needs, and no others.
func TestPackagesOfStage(t *testing.T) {
	out, calls := newMachine(t, "0", "1.26.0", "", "").run(t, "make", "test-arm64")
	i := starts(calls, "apt-get -q -o Acquire::Retries=3 install")
	if i < 0 || !strings.HasSuffix(calls[i], "--no-install-recommends qemu-user-static") {
		t.Errorf("%q\n%s", calls, out)
	}
}

// If Go, Node.js or Python is missing or too old, the message names all of them
// with the required versions, and nothing is installed or built.
func TestToolsFirst(t *testing.T) {
	for _, c := range []struct {
		command              []string
		goVersion, node, py3 string
		says                 []string
		silent               []string // these must not be mentioned
	}{
		{[]string{"make", "test"}, "", "", "", []string{"go 1.26 or newer, which is not in PATH", "node 20.19 or newer", "python3 3.9 or newer", "npm"}, nil},
		{[]string{"make", "test"}, "1.25.9", "18.20.4", "3.8.10", []string{"is 1.25.9", "is 18.20.4", "is 3.8.10"}, []string{"npm"}},
		{[]string{"make", "test"}, "1.26.0", "20.9.0", "3.11.2", []string{"node 20.19 or newer; the one in PATH is 20.9.0"}, []string{"install go", "python3 3"}},
		{[]string{"make", "build"}, "1.9", "20.19.1", "", []string{"go 1.26 or newer; the one in PATH is 1.9"}, []string{"python3", "gcc"}},
		{[]string{"make", "build"}, "1.27.0", "", "", []string{"node 20.19 or newer, which is not in PATH"}, []string{"install go", "python3"}},
		{[]string{"make", "run"}, "", "18.0.0", "", []string{"go 1.26 or newer, which is not in PATH", "the one in PATH is 18.0.0"}, []string{"python3", "libgtk"}},
	} {
		for _, user := range []string{"0", "1000"} {
			out, calls := newMachine(t, user, c.goVersion, c.node, c.py3).run(t, c.command[0], c.command[1:]...)
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("%v with go %q, node %q, python %q does not say %q:\n%s", c.command, c.goVersion, c.node, c.py3, want, out)
				}
			}
			for _, no := range c.silent {
				if strings.Contains(strings.Split(out, "apt-get install")[0], no) {
					t.Errorf("%v with go %q, node %q, python %q speaks of %q:\n%s", c.command, c.goVersion, c.node, c.py3, no, out)
				}
			}
			if builds(calls) >= 0 || starts(calls, "apt-get") >= 0 || starts(calls, "npm") >= 0 {
				t.Errorf("%v continues: %q\n%s", c.command, calls, out)
			}
		}
	}
}

// With a display, the window's libraries are installed before everything else.
func TestRunWithDisplay(t *testing.T) {
	m := newMachine(t, "1000", "1.26.0", "20.19.0", "")
	m.env = append(m.env, "DISPLAY=:9")
	out, calls := m.run(t, "build/run.sh")
	if !strings.Contains(out, "libgtk-3-dev libwebkit2gtk-4.1-dev") || strings.Contains(out, "xdotool") || builds(calls) >= 0 || starts(calls, "npm") >= 0 {
		t.Errorf("%q\n%s", calls, out)
	}
}

// Without dpkg, the script looks for the programs, and the list has Debian's
// package names.
func TestNoDebian(t *testing.T) {
	m := newMachine(t, "0", "1.26.0", "20.19.0", "3.11.2")
	if err := os.Remove(filepath.Join(m.dir, "dpkg-query")); err != nil {
		t.Fatal(err)
	}
	m.add(t, "clang++", "exit 0")
	out, calls := m.run(t, "make", "test")
	for _, want := range []string{"named as in Debian", "qemu-user-static", "libgtk-3-dev", "libamdhip64-5", "chromium", "xvfb", "libc6-dev"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, " clang") || strings.Contains(out, " git") || builds(calls) >= 0 || starts(calls, "apt-get") >= 0 {
		t.Errorf("%q\n%s", calls, out)
	}
}
