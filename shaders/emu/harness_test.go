//go:build linux || darwin

package emu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"godwit/engine/gpu"
	"godwit/engine/testmodel"
	"godwit/shaders"
)

// orders are the lane orders that every test runs.
const orders = 4

// devices are the emulators of this test binary, one per order.
var devices [orders]*device

// mutantCache is the folder for compiled mutants.
var mutantCache string

func TestMain(m *testing.M) {
	for i := range devices {
		d, err := Open(Options{Order: i})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		devices[i] = d.(*device)
	}
	os.Exit(m.Run())
}

// data is any argument of a launch.
type number interface {
	~float32 | ~int32 | ~uint32 | ~uint16 | ~uint8
}

func raw[T number](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

func as[T number](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// once is one launch: its arguments by name.
type once struct {
	kernel    string
	constants shaders.Constants
	params    []byte
	grid      [3]uint32
	args      map[string][]byte // initial contents of buffers; missing ones are 64 bytes of zeros
	edit      func(string) string
}

// run launches a kernel in every order and returns the resulting buffers.
func (o once) run(t testing.TB) map[string][]byte {
	t.Helper()
	out, err := o.try()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try is run for kernels that may be faulty. It returns an error if orders give
// different results.
func (o once) try() (map[string][]byte, error) {
	var result map[string][]byte
	for i, d := range devices {
		out, err := o.on(d)
		if err != nil {
			return nil, err
		}
		for name := range result {
			if !bytes.Equal(result[name], out[name]) {
				return nil, fmt.Errorf("%s: %s depends on the order of lanes (order %d)", o.kernel, name, i)
			}
		}
		result = out
	}
	return result, nil
}

// on launches a kernel on one device.
func (o once) on(d *device) (map[string][]byte, error) {
	k := shaders.Find(o.kernel)
	text, err := k.Source(o.constants)
	if err != nil {
		return nil, err
	}
	if o.edit != nil {
		text = o.edit(text)
	}
	if o.edit != nil && mutantCache != "" {
		user := d.c
		d.c = &compiler{user.path, user.version, user.flags, mutantCache}
		defer func() { d.c = user }()
	}
	p, err := d.pipeline(k, text)
	if err != nil {
		return nil, err
	}
	defer func() { d.err = nil }()
	var binds []gpu.Bind
	out := map[string][]byte{}
	for _, a := range k.Args {
		have, ok := o.args[a.Name]
		if !ok {
			have = make([]byte, 64)
		}
		b, err := d.Alloc(int64(len(have)), nil, a.Name)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		if err := d.Upload(b, 0, have); err != nil {
			return nil, err
		}
		binds = append(binds, gpu.Bind{Buffer: b})
	}
	for name := range o.args {
		if !strings.Contains(text, ", "+name+", ") {
			return nil, fmt.Errorf("%s has no argument %s", o.kernel, name)
		}
	}
	d.Launch(p, o.grid, binds, o.params)
	if err := d.Submit(); err != nil {
		return nil, err
	}
	for i, a := range k.Args {
		if a.Dir != shaders.In {
			out[a.Name] = make([]byte, binds[i].Buffer.Size())
			if err := d.Download(out[a.Name], binds[i].Buffer, 0); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// nans returns n NaN floats, for outputs that must be written completely.
func nans(n int) []byte {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	return raw(x)
}

// normal returns n Gaussian values.
func normal(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// groups returns the grid of an element-wise kernel.
func groups(kernel string, count int) [3]uint32 {
	n := shaders.Find(kernel).Group
	return [3]uint32{uint32((count + n - 1) / n), 1, 1}
}

// near fails if some value i differs from its reference by more than bound(i).
func near(t testing.TB, what string, got []float32, want []float64, bound func(i int) float64) {
	t.Helper()
	if err := differ(got, want, bound); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// differ returns the first value i that differs from its reference by more than
// bound(i).
func differ(got []float32, want []float64, bound func(i int) float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, want %d", len(got), len(want))
	}
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= bound(i)) {
			return fmt.Errorf("value %d is %g, want %g within %g", i, got[i], w, bound(i))
		}
	}
	return nil
}

// readGolden reads a file of the golden data.
func readGolden(t testing.TB, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(testmodel.Golden(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
