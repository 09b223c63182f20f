package device

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"godwit/engine/backend"
	"godwit/engine/cpu"
)

// Auto chooses what computes where nobody did: the first GPU whose kernels are
// known to be right on this machine, else the CPU. A GPU that this program has
// not seen yet is checked first.
type Auto struct {
	Record Record
	// Check checks a backend, in a process of its own, since a driver can take down
	// the one that asks it, and keeps the verdict; nil: what is not in the record is
	// not used.
	Check func(ctx context.Context, name string) error
	// Later has checks run beside what is going on, for the next choice, instead
	// of waiting for them.
	Later bool
	Log   *slog.Logger

	gpus []candidate // nil: those of this build
}

// candidate is a backend that Auto may choose.
type candidate struct {
	backend.Driver
	installed func() bool
}

// started are the backends that are being checked for later, or were.
var started sync.Map

// Choose is the name of a backend. It opens no driver unless its library is installed and
// a verdict on it is kept or can be had.
func (a *Auto) Choose(ctx context.Context) string {
	gpus := a.gpus
	if gpus == nil {
		gpus = candidates()
	}
	for _, d := range gpus {
		if d.installed() && a.right(ctx, d.Driver) {
			return d.Name()
		}
	}
	return cpu.Driver{}.Name()
}

// noneFor is how long a machine without a device is taken to be without.
const noneFor = 24 * time.Hour

// right reports whether a backend's kernels are known to be right.
func (a *Auto) right(ctx context.Context, d backend.Driver) bool {
	v, ok := a.verdict(d.Name())
	switch {
	case !ok:
	case v.Passed():
		ok = same(d, v) // not another card, or another driver
	case v.None:
		age := time.Since(v.When)
		ok = age >= 0 && age < noneFor // the clock may have been put back
	}
	if !ok && a.Check != nil {
		if a.Later {
			a.later(ctx, d.Name())
			return false
		}
		v, ok = a.check(ctx, d.Name())
	}
	if ok && !v.Passed() && !v.None {
		a.Log.Info("a GPU is left alone, the CPU computes", "backend", d.Name(), "device", v.Device, "err", v.String())
	}
	return ok && v.Passed() && same(d, v)
}

// verdict is what this program found, if it did.
func (a *Auto) verdict(name string) (Verdict, bool) {
	kept, err := a.Record.Verdicts()
	if err != nil {
		a.Log.Warn("verdicts on devices cannot be read", "err", err)
	}
	v, ok := kept[name]
	return v, ok && v.Binary == binary()
}

// same reports whether a verdict is on the device that is there now.
func same(d backend.Driver, v Verdict) bool {
	list, err := d.Devices()
	return err == nil && len(list) > 0 && list[0].Device == v.Device && list[0].Detail == v.Detail
}

// check checks a backend. A check that does not come to an end is a verdict too.
func (a *Auto) check(ctx context.Context, name string) (Verdict, bool) {
	start := time.Now().Truncate(time.Second)
	err := a.Check(ctx, name)
	if ctx.Err() != nil {
		return Verdict{}, false
	}
	v, ok := a.verdict(name)
	if err != nil && (!ok || v.Passed() || v.When.Before(start)) {
		v = Verdict{Backend: name, Binary: binary(), When: start.UTC(), Error: err.Error()}
		if err := a.Record.Keep(v); err != nil {
			a.Log.Warn("a verdict on a device cannot be kept", "err", err)
		}
		return v, true
	}
	return v, ok
}

// later starts a check once in a process's life.
func (a *Auto) later(ctx context.Context, name string) {
	if _, going := started.LoadOrStore(name, true); going {
		return
	}
	a.Log.Info("a GPU is being checked; if its kernels are right, it computes from the next load of a model on", "backend", name)
	go func() {
		if v, ok := a.check(ctx, name); ok {
			a.Log.Info("a GPU was checked", "backend", name, "device", v.Device, "passed", v.Passed(), "found", v.String())
		}
	}()
}
