package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"godwit/app/device"
)

type deviceCmd struct {
	Check   bool   `help:"Check everything that the devices compute against exact arithmetic and save the result. --backend auto uses a GPU that passes. A check takes up to a few minutes, once per version of Godwit and of the driver."`
	Backend string `placeholder:"NAME" help:"Check only one backend: metal, cuda, hip, or emu, which runs the kernels on the processor."`
	JSON    bool   `name:"json" help:"Machine-readable output."`
	Apart   bool   `hidden:"" help:"Print the result of checking --backend, good or bad, for the calling process, and save nothing."`
}

// Run lists the devices, or checks them.
func (c *deviceCmd) Run(r *run) error {
	if c.Apart {
		v, err := r.check(c.Backend)
		if v.Backend == "" || r.ctx.Err() != nil {
			return err
		}
		fmt.Fprintln(r.out) // ends a line that a driver may have printed
		return r.json(v.Short())
	}
	if c.Check {
		return c.check(r)
	}
	if c.Backend != "" {
		if _, err := device.Named(c.Backend); err != nil {
			return usage{err}
		}
	}
	shown, err := device.List(r.deviceRecord(), c.Backend)
	if err != nil {
		return err
	}
	if c.JSON {
		return r.json(shown)
	}
	t := newTable("BACKEND", "DEVICE", "MEMORY", "STATUS")
	for _, f := range shown {
		state := knownOf(&f)
		if len(f.Devices) == 0 {
			t.add(f.Backend, "-", "-", state)
		}
		for i, d := range f.Devices {
			memory := "-"
			if d.Memory > 0 {
				memory = size(d.Memory)
			}
			if i > 0 {
				state = "not used: Godwit uses only the first"
			}
			t.add(f.Backend, d.Device+", "+d.Detail, memory, state)
		}
	}
	return t.write(r.out)
}

// knownOf returns the recorded verdict for a backend.
func knownOf(f *device.Found) string {
	switch {
	case f.Error != "":
		return f.Error
	case len(f.Devices) == 0:
		return "no driver, or no device"
	case f.Backend == "cpu":
		return "always available"
	case f.Verdict == nil:
		return "not checked yet: godwit device --check"
	case f.Verdict.Passed():
		return fmt.Sprintf("checked %s, %v: used by auto", f.Verdict.When.Format(time.DateOnly), f.Verdict)
	}
	return fmt.Sprintf("checked %s, not used by auto: %v", f.Verdict.When.Format(time.DateOnly), f.Verdict)
}

// errWrong is returned if a check found wrong results.
var errWrong = errors.New("the device computes wrong results; use --backend cpu")

// check checks one backend, or every available GPU.
func (c *deviceCmd) check(r *run) error {
	names := []string{c.Backend}
	if c.Backend == "" {
		list, err := device.List(r.deviceRecord(), "")
		if err != nil {
			return err
		}
		names = nil
		for _, f := range list {
			if f.Backend != "cpu" && len(f.Devices) > 0 {
				names = append(names, f.Backend)
			}
		}
		if len(names) == 0 {
			return errors.New("there is no GPU to check; godwit device lists the backends")
		}
	}
	all := []device.Verdict{}
	wrong := false
	var unkept error
	for _, name := range names {
		v, err := r.check(name)
		if v.Backend != "" && r.ctx.Err() == nil {
			if err := r.deviceRecord().Keep(v); err != nil {
				unkept = errors.Join(unkept, fmt.Errorf("the result for %s could not be saved: %w", name, err))
			}
		}
		if err != nil {
			return errors.Join(err, unkept)
		}
		all = append(all, v)
		wrong = wrong || !v.Passed()
		if c.JSON {
			continue
		}
		fmt.Fprintf(r.out, "%s: %s, %s: %v (%.0f s)\n", v.Backend, v.Device, v.Detail, &v, v.Time.Seconds())
		for _, f := range v.Failures {
			fmt.Fprintf(r.out, "  %s: %s\n", f.Case, f.Text)
		}
	}
	if c.JSON {
		if err := r.json(all); err != nil {
			return err
		}
	}
	if wrong {
		return errors.Join(errWrong, unkept)
	}
	return unkept
}

// check checks a backend in this process.
func (r *run) check(name string) (device.Verdict, error) {
	bar := r.draw(-1, "checking "+name)
	defer bar.close()
	return device.Check(r.ctx, name, func(what string) { bar.describe("checking " + name + ": " + what) })
}

// deviceRecord returns the record of verdicts on devices.
func (r *run) deviceRecord() device.Record {
	return device.Record(filepath.Join(r.home.Data, "devices.json"))
}

// patience is how a command treats a GPU that has not been checked yet.
type patience int

const (
	recorded patience = iota // use the CPU
	later                    // use the CPU, and check the GPU for the next load
	wait                     // wait for the check
)

// backend returns the name of the backend: the user's setting, or auto's choice.
func (r *run) backend(setting string, p patience) string {
	if setting != "auto" && setting != "" {
		return setting
	}
	a := device.Auto{Record: r.deviceRecord(), Later: p == later, Log: r.log}
	if p != recorded {
		a.Check = r.apart
	}
	return a.Choose(r.ctx)
}

// checkTime limits the duration of a check. dyingTime limits how long its
// process may take to exit.
const (
	checkTime = 5 * time.Minute
	dyingTime = 5 * time.Second
)

// checkApart checks a backend in a separate process.
func (r *run) checkApart(ctx context.Context, name string) (device.Verdict, error) {
	path, err := os.Executable()
	if err != nil {
		return device.Verdict{}, err
	}
	r.log.Info("checking a GPU before its first use", "backend", name)
	c := exec.Command(path, "device", "--apart", "--backend", name)
	c.Args[0] = os.Args[0]
	if terminal(r.err) {
		c.Stderr = r.err
	}
	return verdictOf(ctx, c, checkTime)
}

// verdictOf runs a check and parses the verdict that it prints. A process that
// takes too long is killed. If it does not end even then, because it waits for a
// stuck driver, it is abandoned.
func verdictOf(ctx context.Context, c *exec.Cmd, limit time.Duration) (device.Verdict, error) {
	var out tail
	c.Stdout, c.WaitDelay = &out, dyingTime
	if err := c.Start(); err != nil {
		return device.Verdict{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var stopped error
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // a child process still has its output open
			return device.Verdict{}, fmt.Errorf("the check failed: %w", err)
		}
		return out.verdict()
	case <-ctx.Done():
		stopped = ctx.Err()
	case <-timer.C:
		stopped = fmt.Errorf("the check did not end within %v and was stopped", limit)
	}
	_ = c.Process.Kill() // the process may have exited in the meantime
	select {
	case <-ended:
	case <-time.After(2 * dyingTime):
	}
	return device.Verdict{}, stopped
}

// tail keeps the last bytes that were written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	const most = 1 << 18 // far more than the size of a verdict
	*t = append(*t, p...)
	if n := len(*t); n > 2*most {
		*t = append((*t)[:0], (*t)[n-most:]...)
	}
	return len(p), nil
}

// verdict returns the last line that parses as a verdict, because drivers print
// lines too.
func (t *tail) verdict() (v device.Verdict, err error) {
	lines := bytes.Split(*t, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		v = device.Verdict{}
		if json.Unmarshal(line, &v) == nil && v.Backend != "" {
			return v, nil
		}
	}
	return v, errors.New("the check failed: it ended without a verdict")
}
