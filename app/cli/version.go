package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"godwit/app/device"
	"godwit/engine"
)

// Version is set by release builds.
var Version = "dev"

type versionCmd struct {
	JSON bool `name:"json" help:"Machine-readable output."`
}

// buildInfo describes this binary.
type buildInfo struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit"`
	Go       string   `json:"go"`
	System   string   `json:"system"`
	CPU      string   `json:"cpu_tier"`
	Threads  int      `json:"threads"`
	Backends []string `json:"backends"`
	Archs    []string `json:"architectures"`
}

func newBuildInfo() buildInfo {
	b := buildInfo{
		Version: Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Backends: device.Names(), Archs: engine.Archs(),
	}
	if cpu, err := device.CPU(); err == nil {
		b.CPU, b.Threads = cpu.Detail, cpu.Threads
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			b.Commit += "+"
		}
	}
	return b
}

// Run prints information about this binary.
func (c *versionCmd) Run(r *run) error {
	b := newBuildInfo()
	if c.JSON {
		return r.json(b)
	}
	t := newTable("godwit", b.Version)
	t.add("commit", b.Commit)
	t.add("go", b.Go)
	t.add("system", b.System)
	t.add("cpu", fmt.Sprintf("%s, %d threads", b.CPU, b.Threads))
	for _, name := range b.Backends {
		t.add("backend", name)
	}
	return t.write(r.out)
}
