package device

import (
	"context"
	"fmt"
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
	// the one that asks it. An error says why there is no verdict. nil: what is not
	// in the record is not used.
	Check func(ctx context.Context, name string) (Verdict, error)
	// Later has checks run beside what is going on, for the next choice, instead
	// of waiting for them.
	Later bool
	Log   *slog.Logger

	gpus []entry // nil: the backends of this build
}

// started are the backends that are being checked for later, or were. unkept are
// verdicts that no record could take, by record and backend: they hold in this process.
var started, unkept sync.Map

// place is where a verdict would be kept.
type place struct {
	record Record
	name   string
}

// Choose is the name of a backend. It opens no driver unless its library is installed and
// a verdict on it is stored or can be computed.
func (a *Auto) Choose(ctx context.Context) string {
	gpus := a.gpus
	if gpus == nil {
		gpus = backends
	}
	for _, d := range gpus {
		if d.installed != nil && d.installed() && a.right(ctx, d.Driver) {
			return d.Name()
		}
	}
	return cpu.Driver{}.Name()
}

// holds is how long a check that did not come to its end is left at that: there was
// no device, the driver crashed or it hung, none of which has to last.
const holds = 24 * time.Hour

// right reports whether a backend's kernels are known to be right.
func (a *Auto) right(ctx context.Context, d backend.Driver) bool {
	v, ok := a.verdict(d.Name())
	switch {
	case !ok:
	case v.Passed():
		ok = same(d, v) // not another card, or another driver
	case v.None || v.Error != "":
		age := time.Since(v.When)
		ok = age >= 0 && age < holds // the clock may have been put back
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
	ok = ok && v.Binary == binary()
	if u, there := unkept.Load(place{a.Record, name}); there {
		if u := u.(Verdict); u.Binary == binary() && (!ok || !u.When.Before(v.When)) {
			return u, true
		}
	}
	return v, ok
}

// same reports whether a verdict is on the device that is there now.
func same(d backend.Driver, v Verdict) bool {
	list, err := d.Devices()
	return err == nil && len(list) > 0 && list[0].Device == v.Device && list[0].Detail == v.Detail
}

// check checks a backend and keeps the verdict. A check that does not come to an
// end is a verdict too; a cancelled check is not.
func (a *Auto) check(ctx context.Context, name string) (Verdict, bool) {
	start := time.Now().UTC().Truncate(time.Second)
	v, err := a.Check(ctx, name)
	switch {
	case ctx.Err() != nil:
		return Verdict{}, false
	case err == nil && (v.Backend != name || v.Binary != binary()):
		err = fmt.Errorf("the check was one of %q by another program", v.Backend)
		fallthrough
	case err != nil:
		v = Verdict{Backend: name, Binary: binary(), When: start, Error: err.Error()}
	}
	if err := a.Record.Keep(v); err != nil {
		unkept.Store(place{a.Record, name}, v)
		a.Log.Warn("what a check of a GPU found cannot be kept: it holds until Godwit ends, and the next start checks again", "backend", name, "err", err)
	} else {
		unkept.Delete(place{a.Record, name})
	}
	return v, true
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
