//go:build linux || darwin

package emu

import (
	"errors"
	"strings"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/gpu"
	"godwit/shaders"
)

// fresh opens a device whose errors do not affect other tests.
func fresh(t *testing.T) *device {
	t.Helper()
	d, err := Open(Options{Memory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.(*device)
}

func alloc(t *testing.T, d gpu.Device, size int64, data []byte) gpu.Buffer {
	t.Helper()
	b, err := d.Alloc(size, data, "buffer of the test")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNoCompiler checks for one clear error.
func TestNoCompiler(t *testing.T) {
	_, err := Open(Options{Compiler: "no-such-compiler"})
	if err == nil || !strings.Contains(err.Error(), "no-such-compiler") || !strings.Contains(err.Error(), "CXX") {
		t.Errorf("%v", err)
	}
}

// TestBrokenKernel checks that the error contains the compiler's message with the
// file's line.
func TestBrokenKernel(t *testing.T) {
	d := fresh(t)
	k := shaders.Find("gather")
	text, err := k.Source(nil)
	if err != nil {
		t.Fatal(err)
	}
	d.c = &compiler{d.c.path, d.c.version, d.c.flags, t.TempDir()}
	if _, err = d.pipeline(k, strings.Replace(text, "y[i] =", "z[i] =", 1)); err == nil || !strings.Contains(err.Error(), "gather.h:") {
		t.Errorf("%v", err)
	}
}

func TestMemory(t *testing.T) {
	d := fresh(t)
	b := alloc(t, d, 1<<19, nil)
	for _, size := range []int64{1 << 20, 1 << 62, -1} {
		if _, err := d.Alloc(size, nil, "too much"); !errors.Is(err, backend.ErrMemory) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if free := d.Info().Free; free != 1<<20 {
		t.Errorf("%d bytes free after the only buffer was closed", free)
	}
	if _, err := d.Alloc(3, []byte{1}, "short"); err == nil {
		t.Error("data of another size was taken")
	}
}

// TestTransfers checks that transfers outside of a buffer are rejected.
func TestTransfers(t *testing.T) {
	d := fresh(t)
	b, given := alloc(t, d, 8, nil), alloc(t, d, 4, []byte{1, 2, 3, 4})
	got := make([]byte, 4)
	if err := errors.Join(d.Upload(b, 4, []byte{5, 6, 7, 8}), d.Download(got, b, 4)); err != nil || got[3] != 8 {
		t.Errorf("%v, %v", got, err)
	}
	for name, err := range map[string]error{
		"upload past the end":   d.Upload(b, 6, []byte{1, 2, 3}),
		"upload before":         d.Upload(b, -1, []byte{1}),
		"upload to data":        d.Upload(given, 0, []byte{1}),
		"download past the end": d.Download(got, b, 5),
	} {
		if err == nil {
			t.Errorf("%s was allowed", name)
		}
	}
}

// TestLaunchRefuses checks that launches which do not match the table give an error
// from Submit, and again from Wait.
func TestLaunchRefuses(t *testing.T) {
	params := shaders.Bytes(&shaders.GatherParams{Count: 4, Width: 1})
	for name, launch := range map[string]func(d *device, p gpu.Pipeline, b gpu.Buffer){
		"too few buffers": func(d *device, p gpu.Pipeline, b gpu.Buffer) {
			d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}}, params)
		},
		"parameters of another kernel": func(d *device, p gpu.Pipeline, b gpu.Buffer) {
			d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: b}, {Buffer: b}}, params[:4])
		},
		"an offset past the end": func(d *device, p gpu.Pipeline, b gpu.Buffer) {
			d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: b}, {Buffer: b, Offset: 68}}, params)
		},
		"an offset between elements": func(d *device, p gpu.Pipeline, b gpu.Buffer) {
			d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: b}, {Buffer: b, Offset: 2}}, params)
		},
		"an output in the caller's data": func(d *device, p gpu.Pipeline, b gpu.Buffer) {
			given := alloc(t, d, 64, make([]byte, 64))
			d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: b}, {Buffer: given}}, params)
		},
		"a buffer of another device": func(d *device, p gpu.Pipeline, b gpu.Buffer) {
			d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: b}, {Buffer: alloc(t, fresh(t), 64, nil)}}, params)
		},
	} {
		d := fresh(t)
		p, err := d.Pipeline(shaders.Find("gather"), nil)
		if err != nil {
			t.Fatal(err)
		}
		launch(d, p, alloc(t, d, 64, nil))
		if err := d.Submit(); err == nil || !strings.Contains(err.Error(), "gather") {
			t.Errorf("%s: Submit returned %v", name, err)
		}
		if d.Wait() == nil {
			t.Errorf("%s: the error did not stick", name)
		}
	}
}

// TestBarrier checks that launches before a barrier are visible after it, in every
// order.
func TestBarrier(t *testing.T) {
	for order, d := range devices {
		p, err := d.Pipeline(shaders.Find("unary"), nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b, c := alloc(t, d, 16, nil), alloc(t, d, 16, nil), alloc(t, d, 16, nil)
		if err := d.Upload(a, 0, raw([]float32{1, 2, 3, 4})); err != nil {
			t.Fatal(err)
		}
		twice := shaders.Bytes(&shaders.UnaryParams{Count: 4, By: 2})
		d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: a}, {Buffer: b}}, twice)
		d.Barrier()
		d.Launch(p, [3]uint32{1, 1, 1}, []gpu.Bind{{Buffer: b}, {Buffer: c}}, twice)
		got := make([]byte, 16)
		if err := errors.Join(d.Submit(), d.Download(got, c, 0)); err != nil {
			t.Fatal(err)
		}
		if v := as[float32](got); v[0] != 4 || v[3] != 16 {
			t.Errorf("order %d: %v", order, v)
		}
	}
}
