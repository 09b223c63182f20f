//go:build linux

package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
	"godwit/engine/backend/backendtest/gotest"
	"godwit/engine/dtype"
	"godwit/engine/gpu"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/shaders"
)

// TestConformance runs every op through the driver code, launches and graphs.
// The kernels are those of the PTX in the binary, which the fake driver maps to
// the emulator.
func TestConformance(t *testing.T) {
	f := newFake(t)
	backendtest.Run(gotest.Of(t), driver("cuda", f.api), backend.Options{FloatAttn: true}, backendtest.Lacks...)
	if f.graphs == 0 {
		t.Error("no graph was started")
	}
	if len(f.memory) != 0 {
		t.Errorf("%d buffers are left", len(f.memory))
	}
}

func TestDevices(t *testing.T) {
	f := newFake(t)
	list, err := driver("cuda", f.api).Devices()
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if i := list[0]; i.Device != "fake card" || i.Memory != 1<<34 || i.Detail != "fake card, compute capability 8.6, 4 processors" {
		t.Errorf("%+v", i)
	}
	f.cards = 0
	if list, err := driver("cuda", f.api).Devices(); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// A card gets matrix products only in the form that it can run.
func TestImages(t *testing.T) {
	g := graph.NewBuilder()
	weight := func(cols, rows int) *graph.Weight {
		return &graph.Weight{Name: "w", Type: dtype.F32, Shape: []int{cols, rows}, Data: make([]byte, 4*cols*rows)}
	}
	plan, err := g.Finish(g.Linear(g.Embed(weight(8, 4), 1, graph.ByToken), weight(8, 8), nil))
	if err != nil {
		t.Fatal(err)
	}
	for major, mma := range map[int32]bool{7: false, 8: true, 12: true} {
		f := newFake(t)
		f.major = major
		b, err := driver("cuda", f.api).Open(0, backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Compile(t.Context(), plan, &layout.Layout{}, backend.Sizes{Rows: 32})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, x := range f.handles {
			if in, ok := x.(shaders.Instance); ok && in.Kernel.Name == "matmul" {
				if found++; in.MMA() != mma {
					t.Errorf("capability %d.6: %s", major, in.Name())
				}
			}
		}
		if found != 1 {
			t.Errorf("%d products of matrices", found)
		}
		if err := errors.Join(p.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Whatever is wrong with a machine gives one error, with the cause and the
// numbers.
func TestNoDevice(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(*fake)
		device int
		wants  []string
		is     error
	}{
		{"old driver", func(f *fake) { f.version = 11040 }, 0, []string{"CUDA 11.4", "11.8 or newer"}, errOld},
		{"missing function", func(f *fake) { delete(f.symbols, "cuGraphLaunch") }, 0, []string{"cuGraphLaunch"}, errOld},
		{"no card", func(f *fake) { f.cards = 0 }, 0, []string{"device 0", "0 devices"}, nil},
		{"wrong card", func(*fake) {}, 3, []string{"device 3", "1 devices"}, nil},
		{"old card", func(f *fake) { f.major = 6 }, 0, []string{"fake card", "6.6", "7.5 or newer"}, backend.ErrUnsupported},
		{"broken driver", func(f *fake) { f.fail["cuInit"] = launchFailed }, 0, []string{"init", "719", "unspecified launch failure"}, nil},
		{"no context", func(f *fake) { f.fail["cuDevicePrimaryCtxRetain"] = outOfMemory }, 0, []string{"context", "out of memory"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			c.spoil(f)
			_, err := driver("cuda", f.api).Open(c.device, backend.Options{})
			judge(t, err, c.wants, c.is)
		})
	}
}

func judge(t *testing.T, err error, wants []string, is error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range append(wants, "cuda: ") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("%q is not %q", err, is)
	}
}

func open(t *testing.T, f *fake) gpu.Device {
	t.Helper()
	a, err := f.api()
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.open("cuda", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		clear(f.fail)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// The driver writes to the given address, even if the caller's stack moves
// during the call.
func TestStackMoves(t *testing.T) {
	f := newFake(t)
	d := open(t, f).(*device)
	defer func() { f.before = nil }()
	for _, c := range []struct {
		moves string // moves the stack
		ask   func() error
	}{
		{"cuMemGetInfo_v2", func() error {
			free, total, err := d.memory()
			if free != 1<<34 || total != 1<<34 {
				err = errors.Join(err, fmt.Errorf("%d of %d bytes are free", free, total))
			}
			return err
		}},
		{"cuDeviceGetCount", func() error {
			list, err := d.devices("cuda")
			if len(list) != 1 {
				err = errors.Join(err, fmt.Errorf("%d devices", len(list)))
			}
			return err
		}},
		{"cuDeviceGetAttribute", func() error {
			c, err := d.api.card(0)
			if err == nil && c.capability != 86 {
				err = fmt.Errorf("capability %d", c.capability)
			}
			return err
		}},
		{"cuModuleLoadDataEx", func() error {
			_, err := d.Pipeline(shaders.Find("binary"), nil)
			return err
		}},
		{"cuStreamEndCapture", func() error {
			if err := d.Begin(); err != nil {
				return err
			}
			g, err := d.End()
			if err != nil {
				return err
			}
			d.Replay(g)
			return errors.Join(d.Wait(), g.Close())
		}},
	} {
		moves := 0
		f.before = func(name string) {
			if name == c.moves {
				deepen(1024)
				moves++
			}
		}
		done := make(chan error)
		go func() { done <- c.ask() }() // starts with a small stack
		if err := <-done; err != nil || moves == 0 {
			t.Errorf("%s, called %d times: %v", c.moves, moves, err)
		}
	}
}

// deepen needs n KiB of stack.
func deepen(n int) byte {
	var frame [1024]byte
	if n > 0 {
		frame[n%len(frame)] = deepen(n - 1)
	}
	return frame[0]
}

func TestMemory(t *testing.T) {
	f := newFake(t)
	d := open(t, f)
	f.free = 1000
	_, err := d.Alloc(4096, nil, "cache")
	judge(t, err, []string{"cache wants 4096 bytes, 1000 of 17179869184 free"}, backend.ErrMemory)
	b, err := d.Alloc(3, []byte{1, 2, 3}, "weights")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ offset, n int }{{-1, 1}, {2, 2}, {4, 0}} {
		if err := d.Upload(b, int64(c.offset), make([]byte, c.n)); err == nil {
			t.Errorf("upload of %d bytes at %d of 3", c.n, c.offset)
		}
		if err := d.Download(make([]byte, c.n), b, int64(c.offset)); err == nil {
			t.Errorf("download of %d bytes at %d of 3", c.n, c.offset)
		}
	}
	got := make([]byte, 2)
	if err := d.Download(got, b, 1); err != nil || got[0] != 2 || got[1] != 3 {
		t.Error(got, err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(f.memory) != 0 || f.free != 1000 {
		t.Errorf("%d buffers left, %d bytes free", len(f.memory), f.free)
	}
}

// A kernel that is missing in the pack, or that the driver refuses, gives an
// error. The device continues to work.
func TestCompile(t *testing.T) {
	f := newFake(t)
	d := open(t, f)
	_, err := d.Pipeline(shaders.Find("route"), shaders.Constants{"EXPERTS": 3})
	judge(t, err, []string{"route EXPERTS=3"}, backend.ErrUnsupported)
	f.fail["cuModuleLoadDataEx"] = 218
	_, err = d.Pipeline(shaders.Find("binary"), nil)
	judge(t, err, []string{"binary", "218", "a PTX JIT compilation failed", "ptxas fatal: wrong"}, nil)
	delete(f.fail, "cuModuleLoadDataEx")
	if _, err := d.Pipeline(shaders.Find("binary"), nil); err != nil {
		t.Error(err)
	}
	if err := d.Wait(); err != nil {
		t.Error(err)
	}
}

// The first error of a launch is kept, and every wait returns it.
func TestLost(t *testing.T) {
	f := newFake(t)
	d := open(t, f)
	p, err := d.Pipeline(shaders.Find("unary"), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(64, nil, "values")
	if err != nil {
		t.Fatal(err)
	}
	f.fail["cuLaunchKernel"] = launchFailed
	q := shaders.UnaryParams{Count: 16, By: 1}
	d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: b}}, shaders.Bytes(&q))
	for _, err := range []error{d.Submit(), d.Wait(), d.Download(make([]byte, 4), b, 0)} {
		judge(t, err, []string{"launch unary", "719", "unspecified launch failure"}, nil)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// A launch does not allocate. Callbacks into Go allocate, so a function of the
// C library that returns 0, which means success, replaces the driver's.
func TestLaunchAllocs(t *testing.T) {
	f := newFake(t)
	d := open(t, f)
	nothing, err := purego.Dlsym(purego.RTLD_DEFAULT, "isatty")
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Pipeline(shaders.Find("unary"), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(64, nil, "values")
	if err != nil {
		t.Fatal(err)
	}
	real := *d.(*device).api
	quiet := real
	quiet.launch, quiet.current = nothing, nothing
	d.(*device).api = &quiet
	q := shaders.UnaryParams{Count: 16, By: 1}
	args, params := []gpu.Bind{{Buffer: b}, {Buffer: b, Offset: 32}}, shaders.Bytes(&q)
	if n := testing.AllocsPerRun(100, func() { d.Launch(p, [3]uint32{1, 1, 1}, args, params) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	d.(*device).api = &real
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// Other goroutines read the free memory while launches run.
func TestInfoBesideLaunches(t *testing.T) {
	f := newFake(t)
	d := open(t, f).(*device)
	nothing, err := purego.Dlsym(purego.RTLD_DEFAULT, "isatty")
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Pipeline(shaders.Find("unary"), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(64, nil, "values")
	if err != nil {
		t.Fatal(err)
	}
	real := d.api
	quiet := *real
	quiet.launch, quiet.current, quiet.memInfo = nothing, nothing, nothing
	d.api = &quiet
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 200 {
			if i := d.Info(); i.Device != "fake card" {
				t.Errorf("%+v", i)
			}
		}
	})
	q := shaders.UnaryParams{Count: 16, By: 1}
	args, params := []gpu.Bind{{Buffer: b}, {Buffer: b, Offset: 32}}, shaders.Bytes(&q)
	for range 200 {
		d.Launch(p, [3]uint32{1, 1, 1}, args, params)
	}
	wg.Wait()
	d.api = real
	if err := errors.Join(d.Wait(), b.Close()); err != nil {
		t.Error(err)
	}
}

// A capture that fails leaves nothing behind.
func TestGraphLeaks(t *testing.T) {
	for _, broken := range []string{"", "cuLaunchKernel", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"} {
		f := newFake(t)
		d := open(t, f)
		p, err := d.Pipeline(shaders.Find("unary"), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Alloc(64, nil, "values")
		if err != nil {
			t.Fatal(err)
		}
		before := len(f.handles)
		if broken != "" {
			f.fail[broken] = launchFailed
		}
		rec := d.(gpu.Recorder)
		if err := rec.Begin(); err != nil {
			t.Fatal(err)
		}
		q := shaders.UnaryParams{Count: 8, By: 1}
		d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: b, Offset: 32}}, shaders.Bytes(&q))
		g, err := rec.End()
		if (err == nil) != (broken == "") {
			t.Errorf("%q is broken: %v", broken, err)
		}
		if g != nil {
			err = g.Close()
		}
		if len(f.handles) != before {
			t.Errorf("%q is broken: %d objects, %d before: %v", broken, len(f.handles), before, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Compiled code can be used even if it cannot be saved.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		builds int // number of builds in two calls
	}{
		{filepath.Join(dir, "new", "code"), 1}, {"", 2}, {filepath.Join(file, "code"), 2},
	} {
		builds := 0
		for range 2 {
			code, err := kept(c.path, func() ([]byte, error) { builds++; return []byte("code"), nil })
			if string(code) != "code" || err != nil {
				t.Errorf("%q: %q, %v", c.path, code, err)
			}
		}
		if builds != c.builds {
			t.Errorf("%q: built %d times, want %d", c.path, builds, c.builds)
		}
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if path := codePath("what", "name"); path != "" {
		t.Errorf("without a cache folder the path is %q", path)
	}
}
