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

// Auto chooses the backend if the user did not. It picks the first GPU whose
// kernels passed a check on this machine, else the CPU. A GPU without a stored
// verdict is checked first.
type Auto struct {
	Record Record
	// Check checks a backend in a separate process, because a driver can crash the
	// process that uses it. Its error says why there is no verdict. If Check is
	// nil, only recorded verdicts are used.
	Check func(ctx context.Context, name string) (Verdict, error)
	// Later runs checks in the background for the next choice instead of waiting
	// for them.
	Later bool
	Log   *slog.Logger

	gpus []entry // nil for all backends of this build
}

// started holds the backends whose background check was started. unkept holds
// verdicts that could not be written to the record, by record and backend. They
// apply in this process.
var started, unkept sync.Map

// place identifies a verdict by its record and backend.
type place struct {
	record Record
	name   string
}

// Choose returns the name of a backend. It opens a driver only if the driver's
// library is installed and a verdict is stored or can be computed.
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

// holds is how long the result of an unfinished check applies. A missing device, a
// crash or a hang may be temporary.
const holds = 24 * time.Hour

// right reports whether a backend's kernels are known to be correct.
func (a *Auto) right(ctx context.Context, d backend.Driver) bool {
	v, ok := a.verdict(d.Name())
	switch {
	case !ok:
	case v.Passed():
		ok = same(d, v) // the verdict is for another card or driver
	case v.None || v.Error != "":
		age := time.Since(v.When)
		ok = age >= 0 && age < holds // the clock may have been set back
	}
	if !ok && a.Check != nil {
		if a.Later {
			a.later(ctx, d.Name())
			return false
		}
		v, ok = a.check(ctx, d.Name())
	}
	if ok && !v.Passed() && !v.None {
		a.Log.Info("GPU not used, running on the CPU", "backend", d.Name(), "device", v.Device, "err", v.String())
	}
	return ok && v.Passed() && same(d, v)
}

// verdict returns the recorded verdict of this program, if there is one.
func (a *Auto) verdict(name string) (Verdict, bool) {
	kept, err := a.Record.Verdicts()
	if err != nil {
		a.Log.Warn("GPU check results not read", "err", err)
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

// same reports whether a verdict is for the device that is present now.
func same(d backend.Driver, v Verdict) bool {
	list, err := d.Devices()
	return err == nil && len(list) > 0 && list[0].Device == v.Device && list[0].Detail == v.Detail
}

// check checks a backend and records the verdict. An unfinished check is recorded
// too, but a cancelled one is not.
func (a *Auto) check(ctx context.Context, name string) (Verdict, bool) {
	start := time.Now().UTC().Truncate(time.Second)
	v, err := a.Check(ctx, name)
	switch {
	case ctx.Err() != nil:
		return Verdict{}, false
	case err == nil && (v.Backend != name || v.Binary != binary()):
		err = fmt.Errorf("the result is for backend %q or from another version of Godwit", v.Backend)
		fallthrough
	case err != nil:
		v = Verdict{Backend: name, Binary: binary(), When: start, Error: err.Error()}
	}
	if err := a.Record.Keep(v); err != nil {
		unkept.Store(place{a.Record, name}, v)
		a.Log.Warn("GPU check result not saved, used until exit", "backend", name, "err", err)
	} else {
		unkept.Delete(place{a.Record, name})
	}
	return v, true
}

// later starts the background check of a backend, once per process.
func (a *Auto) later(ctx context.Context, name string) {
	if _, going := started.LoadOrStore(name, true); going {
		return
	}
	a.Log.Info("checking a GPU in the background for the next load", "backend", name)
	go func() {
		if v, ok := a.check(ctx, name); ok {
			a.Log.Info("GPU check finished", "backend", name, "device", v.Device, "passed", v.Passed(), "found", v.String())
		}
	}()
}
